"""Where files lie among a table's values: their partition, and the ranges of a few chosen columns.

These are what planning looks files up by. Which columns they are is kept in the ledger, because every process must
take the same number for the same column, also one of another release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from deltasql.errors import DeltaSqlError
from deltasql.ledger.rows import dump, load
from deltasql.protocol.actions import AddFile, Metadata
from deltasql.protocol.column_paths import Leaf, leaf_columns
from deltasql.protocol.schema import DataType, parse_schema
from deltasql.protocol.skip_keys import Keys, file_keys, kind_of
from deltasql.protocol.skipping import JsonObject, read_stats

# How many columns of a table are indexed. More would cost every commit more than they save a plan.
SLOTS = 2
PROPERTY = "deltasql.skippingColumns"

PLACE_COLUMNS = (
    "partition_id",
    *(f"k{number}_{part}" for number in range(1, SLOTS + 1) for part in ("width", "low", "high")),
)
_LEADING_KINDS = frozenset({"integer", "date", "timestamp", "timestamp_ntz", "double"})


class Slot(msgspec.Struct, frozen=True):
    """An indexed column: its physical path, and the kind of keys it has."""

    number: int
    path: tuple[str, ...]
    kind: str

    def to_row(self, table_id: int) -> tuple[Any, ...]:
        return (table_id, self.number, dump(self.path), self.kind)

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Slot:
        return cls(row[0], tuple(load(row[1])), row[2])


def choose_slots(metadata: Metadata, clustering: Iterable[Sequence[str]] = ()) -> tuple[Slot, ...]:
    """The columns to index: those a property names, those the table is clustered by, then the leading ones."""
    leaves = _leaves(metadata)
    named = [name.strip() for name in metadata.configuration.get(PROPERTY, "").split(",") if name.strip()]
    by_name = {".".join(leaf.path): leaf for leaf in leaves}
    wanted = [by_name[name] for name in named if name in by_name]
    clustered = {tuple(path) for path in clustering}
    wanted += [leaf for leaf in leaves if leaf.physical in clustered]
    wanted += [leaf for leaf in leaves if _is_leading(leaf.type)]
    partitioned = {leaf.physical for leaf in leaves if leaf.path[0] in metadata.partition_columns}
    slots: list[Slot] = []
    for leaf in wanted:
        kind = kind_of(leaf.type)
        taken = leaf.physical in partitioned or any(slot.path == leaf.physical for slot in slots)
        if kind is not None and not taken and len(slots) < SLOTS:
            slots.append(Slot(len(slots) + 1, leaf.physical, kind))
    return tuple(slots)


def _leaves(metadata: Metadata) -> list[Leaf]:
    try:
        return leaf_columns(parse_schema(metadata.schema_string))
    except DeltaSqlError:
        # What cannot be read here is carried whole all the same, and looked up by nothing.
        return []


def _is_leading(type_: DataType) -> bool:
    kind = kind_of(type_)
    return kind in _LEADING_KINDS or (kind or "").startswith("decimal")


class Layout(msgspec.Struct, frozen=True):
    """The indexed columns of a table, with their types as the schema has them now."""

    slots: tuple[tuple[Slot, DataType], ...]

    @classmethod
    def of(cls, metadata: Metadata, slots: Iterable[Slot]) -> Layout:
        types = {leaf.physical: leaf.type for leaf in _leaves(metadata)}
        return cls(tuple((slot, types[slot.path]) for slot in slots if slot.path in types))

    def keys(self, add: AddFile) -> tuple[int | None, ...]:
        """Width, low and high for each slot; None where the file's statistics do not bound the column."""
        stats: JsonObject = read_stats(add.stats) if self.slots and add.stats else {}
        found: dict[int, Keys | None] = {
            slot.number: file_keys(stats, slot.path, type_) if kind_of(type_) == slot.kind else None
            for slot, type_ in self.slots
        }
        row: list[int | None] = []
        for number in range(1, SLOTS + 1):
            keys = found.get(number)
            row += (None, None, None) if keys is None else (keys.width, keys.low, keys.high)
        return tuple(row)
