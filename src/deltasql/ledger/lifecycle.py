"""A table gets another name, or leaves the ledger."""

from __future__ import annotations

from typing import Protocol

import msgspec

from deltasql.errors import InvalidInputError
from deltasql.ledger import statements as sql
from deltasql.ledger.audit import AuditEntry, record_act
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change
from deltasql.ledger.engine import Ledger
from deltasql.ledger.refusals import no_table, table_exists
from deltasql.ledger.registry import check_name, find_table

_RENAME = "UPDATE dl_tables SET name = ? WHERE table_id = ?"
_SELECT_ENTRY = f"SELECT {sql.TABLE_COLUMNS} FROM dl_tables WHERE table_id = ?"
_COUNT_UNPUBLISHED = "SELECT COUNT(*) FROM dl_mirror_status WHERE table_id = ? AND state <> 'SUCCESS'"


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A table that the ledger no longer has. `unpublished` versions of it were never in its log."""

    table: TableEntry
    version: int
    unpublished: int


class Lifecycle(Protocol):
    """What happens to a table as a whole, after its creation."""

    def rename(self, table: TableEntry, name: str) -> TableEntry:
        """Give a table another name; its location stays. `TableExistsError` where the name is taken."""
        ...

    def drop(self, table: TableEntry, *, force: bool = False, data: bool = False) -> Dropped:
        """Take everything the ledger knows of a table out of it, at once. Its number is never given to another.

        With versions that are not in its log yet it is refused, unless with `force`. `data` is for the audit: whether
        the caller goes on to remove the files.
        """
        ...


class SqlLifecycle:
    """The `Lifecycle` of a SQL ledger. `actor` is who the ledger shall say it was."""

    def __init__(self, ledger: Ledger, actor: str = "") -> None:
        self._ledger = ledger
        self._actor = actor

    def rename(self, table: TableEntry, name: str) -> TableEntry:
        check_name(name)
        # Done again it finds the name given already, so a lost answer does no harm.
        return self._ledger.repeat(lambda: self._rename(table, name))

    def _rename(self, table: TableEntry, name: str) -> TableEntry:
        with self._ledger.write() as session:
            found, version = _locked(session, table)
            if name == found.name:
                return found
            if find_table(session, name) is not None:
                raise table_exists(name)
            session.change(_RENAME, (name, found.table_id))
            self._note(session, "rename", name, version, before=found.name)
        return msgspec.structs.replace(found, name=name)

    def drop(self, table: TableEntry, *, force: bool = False, data: bool = False) -> Dropped:
        with self._ledger.write() as session:
            found, version = _locked(session, table)
            row = session.row(_COUNT_UNPUBLISHED, (found.table_id,))
            dropped = Dropped(table=found, version=version, unpublished=0 if row is None else int(row[0]))
            check_droppable(dropped, force=force)
            # In a publisher's order, so that neither waits for the other: the lease, then what it publishes.
            session.row(sql.SELECT_LEASE + session.dialect.lock_row, (found.table_id,))
            session.send([Change(_delete(name), (found.table_id,)) for name in table_names(self._ledger)])
            detail = {"location": found.location, "data": data, "unpublished": dropped.unpublished}
            self._note(session, "drop", found.name, version, **detail)
            # Publishers that wait for commits look at the list of tables again.
            session.announce()
        return dropped

    def _note(self, session: Session, action: str, name: str, version: int, **detail: object) -> None:
        record_act(session, AuditEntry(action=action, actor=self._actor, table=name, version=version, detail=detail))


def table_names(ledger: Ledger) -> list[str]:
    """Every table of the ledger that has rows of one table: leases near the end, the list of tables last.

    A publisher that asks for its first lease looks whether the table has a mirror head; so that goes before.
    """
    # Far too slow an import for anything that happens often.
    from deltasql.ledger.tables import Database, define

    database: Database = ledger.dialect.name  # pyright: ignore[reportAssignmentType] (a dialect's name is one of these)
    names = [table.name for table in define(database).tables.values() if "table_id" in table.columns]
    return sorted(names, key=lambda name: (name == "dl_tables", name == "dl_leases"))


def check_droppable(dropped: Dropped, *, force: bool) -> None:
    """Refuse to forget what stands nowhere else, unless told to."""
    if dropped.unpublished and not force:
        name = dropped.table.name
        raise InvalidInputError(
            f"{dropped.unpublished} versions of table {name!r} are not in its log yet and would be lost",
            hint=f"publish them: deltasql mirror once {name}; or drop the table by force",
            field="force",
        )


def _locked(session: Session, table: TableEntry) -> tuple[TableEntry, int]:
    """The table as it is called now, and its version; its head locked, so that nobody commits meanwhile."""
    head = session.row(sql.SELECT_HEAD + session.dialect.lock_row, (table.table_id,))
    row = session.row(_SELECT_ENTRY, (table.table_id,))
    if head is None or row is None:
        raise no_table(table.name)
    return TableEntry(table_id=row[0], name=row[1], location=row[2]), int(head[0])


def _delete(name: str) -> str:
    return f"DELETE FROM {name} WHERE table_id = ?"
