"""The outbox of a ledger in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec.structs import replace

from deltasql.ledger.contracts import Lease, MirrorHead, MirrorStatus, TableEntry
from deltasql.ledger.memory.tables import Contents
from deltasql.ledger.outbox import MAX_ERROR_TEXT
from deltasql.ledger.refusals import check_published, lease_lost, published_elsewhere


class MemoryOutbox:
    """The `Outbox` of a ledger in memory."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def tables_owing(self) -> list[TableEntry]:
        entries = sorted((table.entry for table in self._contents.tables()), key=lambda entry: entry.name)
        return [entry for entry in entries if self.unpublished(entry, 1)]

    def mirror_head(self, table: TableEntry) -> MirrorHead:
        return self._contents.table(table).mirror

    def unpublished(self, table: TableEntry, limit: int) -> list[int]:
        return [status.version for status in self.status(table, unpublished_only=True)][:limit]

    def status(self, table: TableEntry, *, unpublished_only: bool = False) -> list[MirrorStatus]:
        statuses = self._contents.table(table).statuses.values()
        return [status for status in statuses if not (unpublished_only and status.state == "SUCCESS")]

    def acquire(self, table: TableEntry, seconds: float) -> Lease | None:
        with self._contents.change_table(table) as changed:
            now = self._contents.clock()
            if changed.leased_until > now:
                return None
            fence = 1 if changed.lease is None else changed.lease.fence + 1
            lease = Lease(table_id=table.table_id, holder=str(uuid.uuid4()), fence=fence, seconds=seconds)
            changed.lease, changed.leased_until = lease, now + int(seconds * 1000)
            return lease

    def release(self, lease: Lease) -> None:
        with self._contents.change() as tables:
            held = tables.get(lease.table_id)
            # Of a table that was dropped meanwhile there is nothing to give back.
            if held is not None and held.lease == lease:
                tables[lease.table_id] = replace(held, leased_until=0)

    def mark_published(self, table: TableEntry, lease: Lease, versions: Sequence[int]) -> None:
        with self._contents.change_table(table) as changed:
            if changed.lease != lease or changed.leased_until == 0:
                raise lease_lost(table)
            check_published(table, versions, changed.head.version)
            if changed.mirror.published_version != versions[0] - 1:
                raise published_elsewhere(table, versions[0] - 1)
            now = self._contents.clock()
            changed.leased_until = now + int(lease.seconds * 1000)
            changed.mirror = replace(changed.mirror, published_version=versions[-1])
            for version in versions:
                status = changed.statuses[version]
                changed.statuses[version] = replace(
                    status,
                    state="SUCCESS",
                    attempts=status.attempts + 1,
                    attempted_at=now,
                    published_at=now,
                    error_class=None,
                    error=None,
                )

    def mark_failed(self, table: TableEntry, version: int, error_class: str, error: str) -> None:
        with self._contents.change_table(table) as changed:
            status = changed.statuses.get(version)
            if status is not None and status.state != "SUCCESS":
                changed.statuses[version] = replace(
                    status,
                    state="FAILED",
                    attempts=status.attempts + 1,
                    attempted_at=self._contents.clock(),
                    error_class=error_class,
                    error=error[:MAX_ERROR_TEXT],
                )

    def mark_checkpoint(self, table: TableEntry, version: int) -> None:
        with self._contents.change_table(table) as changed:
            known = changed.mirror.checkpoint_version
            if known is None or known < version:
                changed.mirror = replace(changed.mirror, checkpoint_version=version)

    def quarantine(self, table: TableEntry, version: int, reason: str) -> None:
        with self._contents.change_table(table) as changed:
            if not changed.mirror.quarantined:
                changed.mirror = replace(
                    changed.mirror, quarantined_version=version, quarantine_reason=reason[:MAX_ERROR_TEXT]
                )

    def lift_quarantine(self, table: TableEntry) -> None:
        with self._contents.change_table(table) as changed:
            changed.mirror = replace(changed.mirror, quarantined_version=None, quarantine_reason=None)
