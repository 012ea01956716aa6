"""The partitions of tables, kept in memory and tried by predicates. They are only ever added to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from deltasql.errors import SchemaError
from deltasql.ledger import statements as sql
from deltasql.ledger.dialects import Session
from deltasql.ledger.rows import load_map
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.partitions import parse_partition_value
from deltasql.protocol.predicate import And, Column, Comparison, In, Predicate
from deltasql.protocol.predicate_literals import Value, type_name
from deltasql.protocol.schema import StructField, StructType
from deltasql.protocol.skipping import FileFacts, may_match

_MAX_KEPT = 64
_FLOATS = frozenset({"float", "double"})


class Matching(msgspec.Struct, frozen=True):
    """The numbers of the partitions that may hold matching rows, and whether that is all of them."""

    ids: list[int]
    all: bool


class _Known(msgspec.Struct):
    """The partitions of one table under one schema, and where each value of a column is found."""

    fields: list[StructField]
    last: int = -1
    facts: dict[int, FileFacts] = {}
    by_value: dict[str, dict[Any, list[int]]] = {}
    # Where a value cannot be read, the partition may hold anything.
    unread: dict[str, list[int]] = {}

    def add(self, number: int, values: dict[str, str | None]) -> None:
        typed: dict[str, Value | None] = {}
        for field in self.fields:
            name = physical_name(field)
            try:
                value = cast("Value | None", parse_partition_value(values[name], field.type))
            except (KeyError, SchemaError):
                self.unread.setdefault(field.name, []).append(number)
                continue
            typed[field.name] = value
            self.by_value.setdefault(field.name, {}).setdefault(value, []).append(number)
        self.facts[number] = FileFacts(partition_values=typed)
        self.last = number

    def narrowed(self, predicate: Predicate) -> Iterable[int]:
        """Those that an equality in a conjunction leaves; all where there is none."""
        parts = predicate.operands if isinstance(predicate, And) else (predicate,)
        for part in parts:
            match part:
                case Comparison(Column((name,), kind), "=", value) if not isinstance(value, Column):
                    wanted: tuple[Any, ...] = (value,)
                case In(Column((name,), kind), values):
                    wanted = values
                case _:
                    continue
            # NaN is not found by looking it up.
            if name in self.by_value and type_name(kind) not in _FLOATS:
                found = (number for value in wanted for number in self.by_value[name].get(value, ()))
                return sorted({*found, *self.unread.get(name, ())})
        return self.facts


class Partitions:
    """What has been read of the partitions of a ledger's tables."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], _Known] = OrderedDict()

    def matching(
        self, session: Session, table_id: int, predicate: Predicate, schema: StructType, columns: Sequence[str]
    ) -> Matching:
        fields = [field for name in columns if (field := schema.field(name)) is not None]
        known = self._read(session, table_id, fields)
        ids = [number for number in known.narrowed(predicate) if may_match(predicate, known.facts[number])]
        return Matching(ids, len(ids) == len(known.facts))

    def _read(self, session: Session, table_id: int, fields: list[StructField]) -> _Known:
        key = (table_id, *((field.name, physical_name(field), field.type) for field in fields))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(fields)
            if len(self._known) > _MAX_KEPT:
                self._known.popitem(last=False)
        for number, text in session.rows(sql.SELECT_PARTITIONS, (table_id, known.last)):
            known.add(number, cast("dict[str, str | None]", load_map(text)))
        return known
