"""Publishing one table's versions: the work itself, apart from who does it and who keeps the books.

It reads the ledger and writes the log, and moves no state: what it did comes back as a value. So the same function
runs in the caller's process and on an executor, and only one side ever changes the outbox.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from deltasql.errors import DeltaSqlError, LedgerCorruptError
from deltasql.failpoints import failpoint
from deltasql.ledger.contracts import RecordedCommit, TableEntry, TxnLogReader
from deltasql.log.target import ForeignFound, MirrorTarget
from deltasql.protocol.jsonlog import sha256


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why publishing stopped, in values that cross a process border."""

    error_class: str
    message: str
    hint: str | None

    @classmethod
    def of(cls, error: DeltaSqlError) -> Failure:
        return cls(error_class=error.error_class, message=error.message, hint=error.hint)


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """A commit in the log that the ledger does not know. It was not touched."""

    version: int
    reason: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a range of versions: `done` are in the log and synced, whatever stopped the rest."""

    done: tuple[int, ...] = ()
    bytes: int = 0
    foreign: Foreign | None = None
    failure: Failure | None = None

    @property
    def stopped(self) -> bool:
        return self.foreign is not None or self.failure is not None


def find_foreign(reader: TxnLogReader, target: MirrorTarget, table: TableEntry, published: int) -> Foreign | None:
    """Compare whatever stands above the published version, before anything is put below it."""
    present = target.versions(published + 1)
    if not present:
        return None
    # Read after the listing: whatever deltasql had put there was committed before.
    head = reader.head(table).version
    for version in present:
        if version > head:
            return Foreign(version=version, reason=f"the log holds version {version}, the ledger ends at {head}")
    for commit in reader.commits(table, present[0], present[-1]):
        found = target.read_commit(commit.version)
        if found is not None and found != commit_bytes(table, commit):
            return _other_bytes(commit.version)
    return None


def publish_versions(reader: TxnLogReader, target: MirrorTarget, table: TableEntry, versions: Sequence[int]) -> Outcome:
    """Put consecutive versions into the log, strictly in order, and stop at the first that cannot be put."""
    done: list[int] = []
    size = 0
    foreign: Foreign | None = None
    failure: Failure | None = None
    try:
        for commit in reader.commits(table, versions[0], versions[-1]):
            data = commit_bytes(table, commit)
            answer = target.publish(commit.version, data, timestamp=commit.timestamp)
            if isinstance(answer, ForeignFound):
                foreign = _other_bytes(commit.version)
                break
            done.append(commit.version)
            size += len(data)
    except DeltaSqlError as error:
        failure = Failure.of(error)
    # What was put before a failure is in the log, and the ledger must be told.
    if done:
        try:
            target.sync(done)
        except DeltaSqlError as error:
            return Outcome(failure=Failure.of(error))
        failpoint("before_status")
    return Outcome(done=tuple(done), bytes=size, foreign=foreign, failure=failure)


def commit_bytes(table: TableEntry, commit: RecordedCommit) -> bytes:
    """The commit's bytes, made again and compared with what the ledger promised when it was committed."""
    data = commit.encode()
    if data is None or sha256(data) != commit.sha256:
        raise LedgerCorruptError(
            f"{table.name}: version {commit.version} does not encode to the bytes that were committed",
            hint="do not publish from this ledger: restore it from a backup, or use the release that wrote it",
        )
    return data


def _other_bytes(version: int) -> Foreign:
    return Foreign(version=version, reason=f"another writer put version {version} into the log; it was not touched")
