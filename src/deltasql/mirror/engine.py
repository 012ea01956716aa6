"""The mirror engine: from the outbox to the log, strictly in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from deltasql.config import DEFAULT_MIRROR, MirrorSettings
from deltasql.errors import DeltaSqlError, LedgerBusyError, LedgerCorruptError
from deltasql.events import (
    CheckpointFailed,
    CheckpointPublished,
    PublishFailed,
    Sink,
    TableQuarantined,
    VersionsPublished,
    ignore,
)
from deltasql.failpoints import failpoint
from deltasql.ledger.contracts import Lease, Outbox, RecordedCommit, TableEntry, TxnLogReader
from deltasql.log.target import ForeignFound, MirrorTarget
from deltasql.mirror.checkpoint import write_checkpoint
from deltasql.mirror.policy import checkpoint_due
from deltasql.protocol.jsonlog import sha256

# How often a publisher looks again at a table that another one holds.
_POLL_SECONDS = 0.05

Outcome = Literal["published", "failed", "quarantined", "busy"]


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one table stands after a run. `published` counts the versions this run moved to SUCCESS."""

    table: str
    outcome: Outcome
    published: int
    published_version: int
    head_version: int
    checkpoint_version: int | None = None
    error: str | None = None
    hint: str | None = None


class MirrorReport(msgspec.Struct, frozen=True, kw_only=True):
    tables: tuple[TableReport, ...]

    @property
    def ok(self) -> bool:
        return all(report.outcome == "published" for report in self.tables)

    @property
    def published(self) -> int:
        return sum(report.published for report in self.tables)


class _ForeignCommitError(Exception):
    """A commit in the log that the ledger does not know."""

    def __init__(self, version: int, reason: str) -> None:
        super().__init__(reason)
        self.version = version
        self.reason = reason


class MirrorEngine:
    """Publishes what the outbox holds. Any number may run: a lease keeps them apart, put-if-absent keeps them safe."""

    def __init__(
        self,
        reader: TxnLogReader,
        outbox: Outbox,
        target_for: Callable[[TableEntry], MirrorTarget],
        settings: MirrorSettings = DEFAULT_MIRROR,
        sink: Sink = ignore,
    ) -> None:
        self._reader = reader
        self._outbox = outbox
        self._target_for = target_for
        self._settings = settings
        self._sink = sink

    def run(self, tables: Iterable[TableEntry] | None = None) -> MirrorReport:
        """Publish every version that is pending now; one bad table does not stop the others."""
        chosen = self._reader.tables() if tables is None else tables
        return MirrorReport(tables=tuple(self.publish_table(table) for table in chosen))

    def publish_table(self, table: TableEntry) -> TableReport:
        """Publish one table up to its present head."""
        head = self._reader.head(table).version
        before = self._outbox.mirror_head(table)
        lease = self._wait_for_lease(table, head)
        if lease is None:
            done = self._outbox.mirror_head(table).published_version >= head
            return self._report(table, "published" if done else "busy", before.published_version, head)
        try:
            self._publish(table, lease, head)
            return self._report(table, "published", before.published_version, head)
        except _ForeignCommitError as found:
            self._outbox.quarantine(table, found.version, found.reason)
            self._sink(TableQuarantined(table=table.name, version=found.version, reason=found.reason))
            return self._report(table, "quarantined", before.published_version, head, found.reason)
        except LedgerBusyError as error:
            # Another publisher took over; what it publishes is what this one would have published.
            return self._report(table, "busy", before.published_version, head, error.message, error.hint)
        except DeltaSqlError as error:
            version = self._outbox.mirror_head(table).published_version + 1
            self._outbox.mark_failed(table, version, error.error_class, str(error))
            self._sink(
                PublishFailed(table=table.name, version=version, error_class=error.error_class, error=str(error))
            )
            return self._report(table, "failed", before.published_version, head, error.message, error.hint)
        finally:
            self._outbox.release(lease)

    def checkpoint(self, table: TableEntry) -> int:
        """Write a checkpoint at the published head, due or not, and return its version."""
        version = self._outbox.mirror_head(table).published_version
        self._write_checkpoint(table, self._target_for(table), version)
        return version

    def _wait_for_lease(self, table: TableEntry, head: int) -> Lease | None:
        """The lease; None once the present holder has published up to `head`, or held on for too long."""
        deadline = time.monotonic() + self._settings.wait_seconds
        while True:
            lease = self._outbox.acquire(table, self._settings.lease_seconds)
            if lease is not None:
                return lease
            if self._outbox.mirror_head(table).published_version >= head or time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)

    def _publish(self, table: TableEntry, lease: Lease, head: int) -> None:
        target = self._target_for(table)
        self._look_for_foreign(table, target)
        # An operator who moved the foreign file away has decided: nothing stands in the way any more.
        self._outbox.lift_quarantine(table)
        while versions := self._outbox.unpublished(table, self._settings.batch_size):
            if versions[0] > head:
                break
            self._publish_batch(table, lease, target, versions)
        mirrored = self._outbox.mirror_head(table)
        if checkpoint_due(mirrored, self._reader.state(table, mirrored.published_version), self._settings):
            try:
                self._write_checkpoint(table, target, mirrored.published_version)
            except DeltaSqlError as error:
                # Readers do without it; the commits are there.
                self._sink(CheckpointFailed(table=table.name, version=mirrored.published_version, error=str(error)))

    def _look_for_foreign(self, table: TableEntry, target: MirrorTarget) -> None:
        """Compare whatever stands above the published version, before anything is put below it."""
        published = self._outbox.mirror_head(table).published_version
        present = target.versions(published + 1)
        if not present:
            return
        # Read after the listing: whatever deltasql had put there was committed before.
        head = self._reader.head(table).version
        for version in present:
            if version > head:
                raise _ForeignCommitError(version, f"the log holds version {version}, but the ledger ends at {head}")
        for commit in self._reader.commits(table, present[0], present[-1]):
            found = target.read_commit(commit.version)
            if found is not None and found != _checked_bytes(table, commit):
                raise _foreign_bytes(commit.version)

    def _publish_batch(self, table: TableEntry, lease: Lease, target: MirrorTarget, versions: Sequence[int]) -> None:
        done: list[int] = []
        size = 0
        try:
            for commit in self._reader.commits(table, versions[0], versions[-1]):
                data = _checked_bytes(table, commit)
                outcome = target.publish(commit.version, data, timestamp=commit.timestamp)
                if isinstance(outcome, ForeignFound):
                    raise _foreign_bytes(commit.version)
                done.append(commit.version)
                size += len(data)
        finally:
            # What was put before a failure is in the log, and the ledger must say so.
            if done:
                target.sync(done)
                failpoint("before_status")
                self._outbox.mark_published(table, lease, done)
                failpoint("after_status")
                self._sink(VersionsPublished(table=table.name, first=done[0], last=done[-1], bytes=size))

    def _write_checkpoint(self, table: TableEntry, target: MirrorTarget, version: int) -> None:
        now = max(time.time_ns() // 1_000_000, self._reader.state(table, version).timestamp)
        written = write_checkpoint(self._reader, table, target, version, now)
        self._outbox.mark_checkpoint(table, version)
        self._sink(CheckpointPublished(table=table.name, version=version, actions=written.actions, bytes=written.bytes))

    def _report(
        self,
        table: TableEntry,
        outcome: Outcome,
        published_before: int,
        head: int,
        error: str | None = None,
        hint: str | None = None,
    ) -> TableReport:
        now = self._outbox.mirror_head(table)
        if outcome == "quarantined":
            hint = (
                f"look at {table.location}/_delta_log; to publish the ledger's version, move the foreign file out of "
                "the log, then run: deltasql mirror once"
            )
        return TableReport(
            table=table.name,
            outcome=outcome,
            published=now.published_version - published_before,
            published_version=now.published_version,
            head_version=head,
            checkpoint_version=now.checkpoint_version,
            error=error,
            hint=hint,
        )


def _foreign_bytes(version: int) -> _ForeignCommitError:
    return _ForeignCommitError(version, f"another writer put version {version} into the log; it was not touched")


def _checked_bytes(table: TableEntry, commit: RecordedCommit) -> bytes:
    """The commit's bytes, made again and compared with what the ledger promised when it was committed."""
    data = commit.encode()
    if data is None or sha256(data) != commit.sha256:
        raise LedgerCorruptError(
            f"{table.name}: version {commit.version} does not encode to the bytes that were committed",
            hint="do not publish from this ledger: restore it from a backup, or use the release that wrote it",
        )
    return data
