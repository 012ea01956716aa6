"""A table of a ledger in memory gets another name, or leaves it."""

from __future__ import annotations

from msgspec.structs import replace

from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.lifecycle import Dropped, check_droppable
from deltasql.ledger.memory.tables import Contents, MemoryTable
from deltasql.ledger.refusals import no_table, table_exists
from deltasql.ledger.registry import check_name


class MemoryLifecycle:
    """The `Lifecycle` of a ledger in memory."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def rename(self, table: TableEntry, name: str) -> TableEntry:
        check_name(name)
        with self._contents.change() as tables:
            found = _require(tables, table)
            if any(other.entry.name == name for other in tables.values() if other is not found):
                raise table_exists(name)
            entry = replace(found.entry, name=name)
            tables[table.table_id] = replace(found, entry=entry)
        return entry

    def drop(self, table: TableEntry, *, force: bool = False, data: bool = False) -> Dropped:  # noqa: ARG002 (no audit)
        with self._contents.change() as tables:
            found = _require(tables, table)
            unpublished = sum(status.state != "SUCCESS" for status in found.statuses.values())
            dropped = Dropped(table=found.entry, version=found.head.version, unpublished=unpublished)
            check_droppable(dropped, force=force)
            del tables[table.table_id]
        return dropped


def _require(tables: dict[int, MemoryTable], table: TableEntry) -> MemoryTable:
    if table.table_id not in tables:
        raise no_table(table.name)
    return tables[table.table_id]
