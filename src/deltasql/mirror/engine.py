"""The mirror engine: from the outbox to the log, strictly in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from deltasql.config import DEFAULT_MIRROR, MirrorSettings
from deltasql.errors import DeltaSqlError, LedgerBusyError, NotFoundError, TableNotFoundError
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
from deltasql.ledger.contracts import Lease, Outbox, TableEntry, TxnLogReader
from deltasql.log.target import CheckpointWritten, MirrorTarget
from deltasql.mirror.checkpoint import write_checkpoint
from deltasql.mirror.policy import checkpoint_due
from deltasql.mirror.publish import Failure, Foreign, Outcome, find_foreign, publish_versions

# How often a publisher looks again at a table that another one holds.
_POLL_SECONDS = 0.05

Verdict = Literal["published", "failed", "quarantined", "busy"]


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one table stands after a run. `published` counts the versions this run moved to SUCCESS."""

    table: str
    outcome: Verdict
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
        reports = [self._publish_unless_dropped(table) for table in chosen]
        return MirrorReport(tables=tuple(report for report in reports if report is not None))

    def _publish_unless_dropped(self, table: TableEntry) -> TableReport | None:
        """None where the table was dropped meanwhile: there is nothing to publish, and nothing to tell."""
        try:
            return self.publish_table(table)
        except TableNotFoundError:
            return None

    def publish_table(self, table: TableEntry) -> TableReport:
        """Publish one table up to its present head."""
        head = self._reader.head(table).version
        before = self._outbox.mirror_head(table).published_version
        lease = self._wait_for_lease(table, head)
        if lease is None:
            done = self._outbox.mirror_head(table).published_version >= head
            return self.report(table, "published" if done else "busy", before, head)
        try:
            return self._publish(table, lease, before, head)
        except LedgerBusyError as error:
            # Another publisher took over; what it publishes is what this one would have published.
            return self.report(table, "busy", before, head, error.message, error.hint)
        except DeltaSqlError as error:
            return self.record_failure(table, before, head, Failure.of(error))
        finally:
            self._outbox.release(lease)

    def checkpoint(self, table: TableEntry) -> int:
        """Write a checkpoint at the published head, due or not, and return its version."""
        version = self._outbox.mirror_head(table).published_version
        if version < 0:
            raise NotFoundError(
                f"table {table.name!r} has no published version yet",
                hint="publish first: deltasql mirror once",
                field="table",
            )
        self._write_checkpoint(table, self._target_for(table), version)
        return version

    # -- the steps of a run; a run on Spark takes the same ones, with the work in between done elsewhere --------------

    def record(self, table: TableEntry, lease: Lease, outcome: Outcome) -> None:
        """Move the versions that are in the log to SUCCESS."""
        if outcome.done:
            self._outbox.mark_published(table, lease, outcome.done)
            failpoint("after_status")
            self._sink(
                VersionsPublished(table=table.name, first=outcome.done[0], last=outcome.done[-1], bytes=outcome.bytes)
            )

    def record_foreign(self, table: TableEntry, before: int, head: int, foreign: Foreign) -> TableReport:
        """Stop the table until an operator decides."""
        known = self._outbox.mirror_head(table).quarantined
        self._outbox.quarantine(table, foreign.version, foreign.reason)
        if not known:
            self._sink(TableQuarantined(table=table.name, version=foreign.version, reason=foreign.reason))
        return self.report(table, "quarantined", before, head, foreign.reason)

    def record_failure(self, table: TableEntry, before: int, head: int, failure: Failure) -> TableReport:
        """Mark the version that could not be published FAILED; the next run tries it again."""
        version = self._outbox.mirror_head(table).published_version + 1
        self._outbox.mark_failed(table, version, failure.error_class, failure.message)
        self._sink(
            PublishFailed(table=table.name, version=version, error_class=failure.error_class, error=failure.message)
        )
        return self.report(table, "failed", before, head, failure.message, failure.hint)

    def record_checkpoint(self, table: TableEntry, written: CheckpointWritten) -> None:
        self._outbox.mark_checkpoint(table, written.version)
        self._sink(
            CheckpointPublished(table=table.name, version=written.version, actions=written.actions, bytes=written.bytes)
        )

    def report(
        self,
        table: TableEntry,
        outcome: Verdict,
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

    # -- a run in this process ----------------------------------------------------------------------------------------

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

    def _publish(self, table: TableEntry, lease: Lease, before: int, head: int) -> TableReport:
        target = self._target_for(table)
        published = self._outbox.mirror_head(table).published_version
        if foreign := find_foreign(self._reader, target, table, published):
            return self.record_foreign(table, before, head, foreign)
        # An operator who moved the foreign file away has decided: nothing stands in the way any more.
        self._outbox.lift_quarantine(table)
        while versions := self._outbox.unpublished(table, self._settings.batch_size):
            if versions[0] > head:
                break
            outcome = publish_versions(self._reader, target, table, versions)
            self.record(table, lease, outcome)
            if outcome.foreign is not None:
                return self.record_foreign(table, before, head, outcome.foreign)
            if outcome.failure is not None:
                return self.record_failure(table, before, head, outcome.failure)
        self._checkpoint_if_due(table, target)
        return self.report(table, "published", before, head)

    def _checkpoint_if_due(self, table: TableEntry, target: MirrorTarget) -> None:
        mirrored = self._outbox.mirror_head(table)
        version = mirrored.published_version
        if checkpoint_due(mirrored, self._reader.state(table, version), self._settings):
            try:
                self._write_checkpoint(table, target, version)
            except DeltaSqlError as error:
                # Readers do without it; the commits are there.
                self._sink(CheckpointFailed(table=table.name, version=version, error=str(error)))

    def _write_checkpoint(self, table: TableEntry, target: MirrorTarget, version: int) -> None:
        now = max(time.time_ns() // 1_000_000, self._reader.state(table, version).timestamp)
        self.record_checkpoint(table, write_checkpoint(self._reader, table, target, version, now))
