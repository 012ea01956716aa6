"""The ledger's public interfaces, and the values that cross them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
import pyarrow as pa

from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import Action, DomainMetadata, Metadata, SetTransaction, TableProtocol
from deltasql.protocol.conflicts import BLIND, IsolationLevel, Reads
from deltasql.protocol.jsonlog import encode_commit
from deltasql.protocol.predicate import Predicate

# The end of life of what still lives: greater than any version.
LIVE = 2**63 - 1

MirrorState = Literal["PENDING", "SUCCESS", "FAILED"]
Origin = Literal["written", "adopted", "checkpoint"]


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A table as the ledger lists it."""

    table_id: int
    name: str
    location: str


class TableHead(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a table, and what a writer must know of it."""

    version: int
    timestamp: int


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one version, without its files."""

    version: int
    timestamp: int
    protocol: TableProtocol
    metadata: Metadata


class CommitDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What one table shall get in a transaction: the actions, and what `commitInfo` shall say of them.

    With `create_at` the table is created at that location by this commit; else it must exist.
    `read_version` is the version the writer looked at; None means that it looked at nothing.
    """

    table: str
    actions: Sequence[Action]
    operation: str
    # Which table had the name when the commit was made; another one that has it by now is refused.
    table_id: int | None = None
    parameters: Mapping[str, Any] = {}
    metrics: Mapping[str, str] = {}
    user_metadata: str | None = None
    create_at: str | None = None
    read_version: int | None = None
    reads: Reads = BLIND
    # The writer may have read more than `reads` tells: others must not take it for a blind append.
    looked: bool = False
    isolation: IsolationLevel = "Serializable"
    token: str | None = None
    # Where the table has seen this application's version, or a later one, the commit was made before.
    txn: SetTransaction | None = None


class AdoptedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit found in a log: its bytes, its actions, and the time it counts as made."""

    version: int
    data: bytes
    actions: Sequence[Action]
    timestamp: int


class AdoptedBase(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint an adopted history begins with, where the commits before it are gone.

    `data` is the commit file of the same version, where it still exists.
    """

    version: int
    actions: Sequence[Action]
    timestamp: int
    data: bytes | None = None


class RecordedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit as the ledger holds it.

    `found_bytes` stands in for the canonical encoding where an adopted commit was spelled otherwise. Of a history
    that begins with a checkpoint, the first `actions` are the checkpoint's.
    """

    version: int
    timestamp: int
    sha256: str
    encoder: int
    origin: Origin
    actions: Sequence[Action]
    found_bytes: bytes | None = None

    def encode(self) -> bytes | None:
        """The bytes of the commit's file; None where it was gone before the table was adopted."""
        if self.found_bytes is not None or self.origin == "checkpoint":
            return self.found_bytes
        return encode_commit(self.actions)


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A commit as `history` shows it."""

    version: int
    timestamp: int
    operation: str | None
    origin: Origin
    commit_info: Mapping[str, Any]
    mirror: MirrorState


class MirrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the publication of one commit stands."""

    version: int
    state: MirrorState
    attempts: int
    created_at: int
    attempted_at: int | None
    published_at: int | None
    error_class: str | None
    error: str | None
    bytes: int
    sha256: str


class MirrorHead(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log of a table has come."""

    published_version: int
    checkpoint_version: int | None
    quarantined_version: int | None
    quarantine_reason: str | None

    @property
    def quarantined(self) -> bool:
        return self.quarantined_version is not None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to publish one table for a while. A newer lease has a higher `fence`."""

    table_id: int
    holder: str
    fence: int
    seconds: float


class TxnLogWriter(Protocol):
    """Commits to the ledger."""

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        """Commit all drafts in one transaction, or none. Every commit leaves its debt to publish in the outbox."""
        ...

    def adopt(
        self,
        name: str,
        location: str,
        commits: Sequence[AdoptedCommit],
        base: AdoptedBase | None = None,
        checkpoint_version: int | None = None,
    ) -> TableEntry:
        """Take in a table whose history was written elsewhere, whole or not at all; it counts as published.

        `checkpoint_version` is the newest checkpoint found in its log.
        """
        ...


class TxnLogReader(Protocol):
    """Reads the ledger. A version that is not given is the head."""

    def tables(self) -> list[TableEntry]: ...

    def table(self, name: str) -> TableEntry:
        """`TableNotFoundError` where there is none."""
        ...

    def head(self, table: TableEntry) -> TableHead: ...

    def heads(self) -> dict[str, int]:
        """The newest version of every table, by name."""
        ...

    def state(self, table: TableEntry, version: int | None = None) -> TableState:
        """`VersionNotFoundError` outside the history."""
        ...

    def known_state(self, table: TableEntry) -> TableState:
        """The newest state this reader has seen, which may not be the newest there is."""
        ...

    def version_at(self, table: TableEntry, timestamp: int) -> int:
        """The newest version not after `timestamp` (milliseconds)."""
        ...

    def version_of(self, table: TableEntry, token: str) -> int | None:
        """The version that was committed with this token; None where there is none."""
        ...

    def files(self, table: TableEntry, version: int, *, batch_size: int = 20_000) -> Iterator[pa.Table]:
        """The active files as Arrow tables of `protocol.files.FILES`."""
        ...

    def plan(
        self, table: TableEntry, version: int, predicate: Predicate, metadata: Metadata, *, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        """The files that may hold rows for which the predicate is true: perhaps some too many, never one too few.

        `metadata` is the table's at that version.
        """
        ...

    def tombstones(
        self, table: TableEntry, version: int, *, newer_than: int, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        """Removed files with a deletion timestamp after `newer_than`, as `protocol.files.TOMBSTONES`."""
        ...

    def count(self, table: TableEntry, version: int, *, newer_than: int) -> tuple[int, int]:
        """How many files and how many such tombstones `files` and `tombstones` yield."""
        ...

    def transactions(self, table: TableEntry, version: int) -> list[SetTransaction]: ...

    def domains(self, table: TableEntry, version: int) -> list[DomainMetadata]:
        """The domains in force; removed ones are not among them."""
        ...

    def commits(self, table: TableEntry, start: int, end: int) -> Iterator[RecordedCommit]:
        """The commits of versions `start` to `end`, both included, ascending."""
        ...

    def history(self, table: TableEntry, limit: int | None = None, *, since: int = -1) -> list[HistoryEntry]:
        """Newest first; only versions after `since`."""
        ...


class Outbox(Protocol):
    """The debts to publish, and who is paying them."""

    def tables_owing(self) -> list[TableEntry]:
        """The tables with versions still to be published, by name."""
        ...

    def mirror_head(self, table: TableEntry) -> MirrorHead: ...

    def unpublished(self, table: TableEntry, limit: int) -> list[int]:
        """The next versions to publish, ascending, without a gap after the published one."""
        ...

    def status(self, table: TableEntry, *, unpublished_only: bool = False) -> list[MirrorStatus]: ...

    def acquire(self, table: TableEntry, seconds: float) -> Lease | None:
        """The right to publish; None while another live holder has it. A dead process of this host holds nothing."""
        ...

    def release(self, lease: Lease) -> None: ...

    def mark_published(self, table: TableEntry, lease: Lease, versions: Sequence[int]) -> None:
        """Move consecutive versions to SUCCESS and extend the lease. One that was lost is an error; nothing moves."""
        ...

    def mark_failed(self, table: TableEntry, version: int, error_class: str, error: str) -> None: ...

    def mark_checkpoint(self, table: TableEntry, version: int) -> None:
        """Note the newest checkpoint; an older one never replaces it."""
        ...

    def quarantine(self, table: TableEntry, version: int, reason: str) -> None:
        """Stop publishing this table until an operator decides."""
        ...

    def lift_quarantine(self, table: TableEntry) -> None:
        """Let publishing go on; nothing to do where it was not stopped."""
        ...
