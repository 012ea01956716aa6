"""Which files may hold rows that satisfy a predicate: found by indexes, not by looking at each.

The answer may hold a file too many, never one too few. Partitions are tried by the predicate itself, indexed columns by
ranges that every matching row must lie in; what these cannot tell is left to whoever reads the statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.dialects import Dialect, Session
from deltasql.ledger.layout import Slot
from deltasql.ledger.partitions import Partitions
from deltasql.ledger.placing import load_slots
from deltasql.protocol.actions import Metadata
from deltasql.protocol.column_paths import leaf_columns
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.ranges import Ranges, ranges
from deltasql.protocol.schema import StructType
from deltasql.protocol.skip_keys import CLASSES, HIGHEST, LOWEST, key_of, kind_of, reach

# More partitions than this are not worth a probe each: all files are looked at instead.
_MAX_PROBED = 20_000


class _Bounds(msgspec.Struct, frozen=True):
    """An indexed column, and the keys that every matching row lies between."""

    slot: int
    low: int
    high: int


Query = tuple[str, list[Any]]


class Planner:
    """Plans scans of one ledger."""

    def __init__(self) -> None:
        self._partitions = Partitions()

    def plan(
        self,
        session: Session,
        table: TableEntry,
        version: int,
        predicate: Predicate,
        schema: StructType,
        metadata: Metadata,
        columns: Sequence[str],
    ) -> list[Query]:
        """The statements whose rows are the files that may match; none where none can."""
        constraints = ranges(predicate)
        if constraints is None:
            return []
        partitions = self._partitions.matching(session, table.table_id, predicate, schema, metadata.partition_columns)
        if partitions.ids == []:
            return []
        bounds = _bounds(constraints, load_slots(session, table.table_id), schema)
        if bounds is None:
            return []
        names = ", ".join((*columns, "version", "ordinal"))
        dialect = session.dialect
        chosen: Query = ("", [])
        if not partitions.all:
            chosen = (f" AND partition_id {dialect.members}", [dialect.list_of(partitions.ids)])
        removed = sql.select_files_removed_since(names, chosen[0]), [table.table_id, version, version, *chosen[1]]
        if bounds and len(partitions.ids) <= _MAX_PROBED:
            # The index begins with the partition, so each is probed, also where all of them may match.
            probed: Query = (f" AND partition_id {dialect.members}", [dialect.list_of(partitions.ids)])
            live = _probe(table, version, names, probed, bounds, dialect)
        else:
            where, values = _inside(bounds)
            hint = "" if partitions.all else dialect.index_hint("dl_add_files_k1")
            statement = sql.select_live_files(names, chosen[0] + where, hint)
            live = f"{statement} ORDER BY version, ordinal", [table.table_id, version, *chosen[1], *values]
        return [live, removed]


def _bounds(constraints: Ranges, slots: Sequence[Slot], schema: StructType) -> list[_Bounds] | None:
    """The keys to look between, best first; None where nothing can lie between them."""
    leaves = {leaf.physical: leaf for leaf in leaf_columns(schema)}
    found: list[_Bounds] = []
    for slot in slots:
        leaf = leaves.get(slot.path)
        constraint = None if leaf is None else constraints.get(leaf.path)
        # Keys of another kind are those of another type; NaN has no place among the keys.
        if leaf is None or constraint is None or constraint.nan or kind_of(leaf.type) != slot.kind:
            continue
        low = LOWEST if constraint.low is None else key_of(constraint.low, slot.kind)
        high = HIGHEST if constraint.high is None else key_of(constraint.high, slot.kind)
        if low > high:
            return None
        found.append(_Bounds(slot.number, low, high))
    return sorted(found, key=lambda bounds: (bounds.low == LOWEST) + (bounds.high == HIGHEST))


def _probe(
    table: TableEntry, version: int, names: str, partitions: Query, bounds: Sequence[_Bounds], dialect: Dialect
) -> Query:
    """Look between the keys of one column, a width at a time; what has no keys may lie anywhere."""
    first, *others = bounds
    slot = f"k{first.slot}"
    hint = dialect.index_hint(f"dl_add_files_{slot}")
    where, values = _inside(others)
    statements: list[str] = []
    parameters: list[Any] = []
    for width in range(CLASSES):
        between = f" AND {slot}_width = {width} AND {slot}_high BETWEEN ? AND ? AND {slot}_low <= ?"
        statements.append(sql.select_live_files(names, partitions[0] + between + where, hint))
        ends = (first.low, reach(width, first.high), first.high)
        parameters += (table.table_id, version, *partitions[1], *ends, *values)
    statements.append(sql.select_live_files(names, f"{partitions[0]} AND {slot}_width IS NULL{where}", hint))
    parameters += (table.table_id, version, *partitions[1], *values)
    return f"{' UNION ALL '.join(statements)} ORDER BY version, ordinal", parameters


def _inside(bounds: Sequence[_Bounds]) -> Query:
    """The condition that files lie between the keys, or may."""
    where = "".join(f" AND (k{b.slot}_width IS NULL OR (k{b.slot}_high >= ? AND k{b.slot}_low <= ?))" for b in bounds)
    return where, [value for each in bounds for value in (each.low, each.high)]


def rows_of(session: Session, queries: Sequence[Query], batch_size: int) -> Iterator[list[tuple[Any, ...]]]:
    """The answers, without what they were ordered by."""
    for statement, parameters in queries:
        for rows in session.batches(statement, parameters, batch_size):
            yield [row[:-2] for row in rows]
