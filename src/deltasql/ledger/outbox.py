"""The outbox: which commits are still to be published, and who may publish them now."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Sequence

from deltasql.ledger import statements as sql
from deltasql.ledger.audit import AuditEntry, record_act
from deltasql.ledger.contracts import Lease, MirrorHead, MirrorStatus, TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change
from deltasql.ledger.engine import Ledger
from deltasql.ledger.refusals import check_published, lease_lost, no_table, published_elsewhere
from deltasql.ledger.registry import entries

MAX_ERROR_TEXT = 2_000


class SqlOutbox:
    """The `Outbox` of a SQL ledger."""

    def __init__(self, ledger: Ledger, actor: str = "") -> None:
        self._ledger = ledger
        self._actor = actor
        self._holder = str(uuid.uuid4())
        self._host = socket.gethostname()

    def tables_owing(self) -> list[TableEntry]:
        with self._ledger.read() as session:
            return entries(session.rows(sql.SELECT_TABLES_OWING))

    def mirror_head(self, table: TableEntry) -> MirrorHead:
        with self._ledger.read() as session:
            return _mirror_head(session, table)

    def unpublished(self, table: TableEntry, limit: int) -> list[int]:
        with self._ledger.read() as session:
            published = _mirror_head(session, table).published_version
            rows = session.rows(sql.SELECT_UNPUBLISHED, (table.table_id, limit))
        # A row above a gap waits: its predecessor's transaction may still be under way.
        return [row[0] for place, row in enumerate(rows, start=1) if row[0] == published + place]

    def status(self, table: TableEntry, *, unpublished_only: bool = False) -> list[MirrorStatus]:
        condition = " AND s.state <> 'SUCCESS'" if unpublished_only else ""
        with self._ledger.read() as session:
            rows = session.rows(f"{sql.SELECT_STATUS}{condition} ORDER BY s.version", (table.table_id,))
        names = MirrorStatus.__struct_fields__
        return [MirrorStatus(**dict(zip(names, row, strict=True))) for row in rows]

    def acquire(self, table: TableEntry, seconds: float) -> Lease | None:
        with self._ledger.write() as session:
            now = session.now()
            expires = now + int(seconds * 1000)
            row = session.row(sql.SELECT_LEASE + session.dialect.lock_row, (table.table_id,))
            me = (self._holder, self._host, os.getpid())
            if row is None:
                # Of a table that was dropped there must be no lease; and none is dropped while this looks.
                _mirror_head(session, table, locked=True)
                if session.change(sql.INSERT_LEASE, (table.table_id, *me, 1, expires)) != 1:
                    return None
                return Lease(table_id=table.table_id, holder=self._holder, fence=1, seconds=seconds)
            _, host, pid, fence, until = row
            if until > now and not (host == self._host and _is_dead(pid)):
                return None
            if session.change(sql.TAKE_LEASE, (*me, fence + 1, expires, table.table_id, fence)) != 1:
                return None
            return Lease(table_id=table.table_id, holder=self._holder, fence=fence + 1, seconds=seconds)

    def release(self, lease: Lease) -> None:
        with self._ledger.write() as session:
            session.change(sql.RELEASE_LEASE, (lease.table_id, lease.holder, lease.fence))

    def mark_published(self, table: TableEntry, lease: Lease, versions: Sequence[int]) -> None:
        with self._ledger.write() as session:
            _require_lease(session, table, lease)
            row = session.row(sql.SELECT_HEAD, (table.table_id,))
            check_published(table, versions, -1 if row is None else row[0])
            now = session.now()
            extended = (now + int(lease.seconds * 1000), table.table_id, lease.holder, lease.fence)
            writes = [Change(sql.MARK_PUBLISHED, (now, now, table.table_id, version)) for version in versions]
            writes.append(Change(sql.EXTEND_LEASE, extended))
            writes.append(Change(sql.MOVE_PUBLISHED, (versions[-1], table.table_id, versions[0] - 1)))
            moved = session.send(writes)[-1]
            if moved != 1:
                raise published_elsewhere(table, versions[0] - 1)

    def mark_failed(self, table: TableEntry, version: int, error_class: str, error: str) -> None:
        with self._ledger.write() as session:
            session.change(sql.MARK_FAILED, (session.now(), error_class, _kept(error), table.table_id, version))

    def mark_checkpoint(self, table: TableEntry, version: int) -> None:
        with self._ledger.write() as session:
            session.change(sql.MOVE_CHECKPOINT, (version, table.table_id, version))

    def quarantine(self, table: TableEntry, version: int, reason: str) -> None:
        with self._ledger.write() as session:
            if session.change(sql.QUARANTINE, (version, session.now(), _kept(reason), table.table_id)):
                self._note(session, "quarantine", table, version, reason=_kept(reason))

    def lift_quarantine(self, table: TableEntry) -> None:
        with self._ledger.read() as session:
            quarantined = _mirror_head(session, table).quarantined_version
        if quarantined is None:
            return
        with self._ledger.write() as session:
            session.change(sql.LIFT_QUARANTINE, (table.table_id,))
            self._note(session, "lift_quarantine", table, quarantined)

    def _note(self, session: Session, action: str, table: TableEntry, version: int, **detail: object) -> None:
        act = AuditEntry(action=action, actor=self._actor, table=table.name, version=version, detail=detail)
        record_act(session, act)


def _kept(text: str) -> str:
    """The text of any error, as every database can hold it: a file's name in it may be no valid Unicode."""
    return text[:MAX_ERROR_TEXT].replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _mirror_head(session: Session, table: TableEntry, *, locked: bool = False) -> MirrorHead:
    statement = sql.SELECT_MIRROR_HEAD + (session.dialect.lock_row if locked else "")
    row = session.row(statement, (table.table_id,))
    if row is None:
        raise no_table(table.name)
    return MirrorHead(
        published_version=row[0], checkpoint_version=row[1], quarantined_version=row[2], quarantine_reason=row[3]
    )


def _require_lease(session: Session, table: TableEntry, lease: Lease) -> None:
    row = session.row(sql.SELECT_LEASE + session.dialect.lock_row, (table.table_id,))
    if row is None:
        _mirror_head(session, table)
    # One that was given back (see RELEASE_LEASE) is lost too, even where nobody has taken it yet.
    if row is None or (row[0], row[3]) != (lease.holder, lease.fence) or row[4] == 0:
        raise lease_lost(table)


def _is_dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
