"""Where commits are published to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from deltasql.protocol.actions import DomainMetadata, Metadata, SetTransaction, TableProtocol


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The commit is in the log. `created` is False where the same bytes stood there already."""

    version: int
    created: bool


class ForeignFound(msgspec.Struct, frozen=True, kw_only=True):
    """Other bytes stand at this version. They were not touched."""

    version: int
    found: bytes


class CheckpointState(msgspec.Struct, frozen=True, kw_only=True):
    """A table's state at one version, as a checkpoint holds it. Files come in batches, so that any number fits."""

    version: int
    protocol: TableProtocol
    metadata: Metadata
    transactions: Sequence[SetTransaction] = ()
    domains: Sequence[DomainMetadata] = ()
    files: Iterable[pa.Table]
    tombstones: Iterable[pa.Table] = ()
    # What the ledger counted; a checkpoint that holds another number is not given its name.
    num_files: int
    num_tombstones: int = 0


class CheckpointWritten(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    actions: int
    bytes: int
    files: int


class MirrorTarget(Protocol):
    """The log of one table, as the publisher sees it."""

    @property
    def url(self) -> str:
        """The table's location, without a trailing slash."""
        ...

    def publish(self, version: int, data: bytes, *, timestamp: int) -> Published | ForeignFound:
        """Put a commit where there is none. An answer that never came is resolved by looking, never guessed."""
        ...

    def sync(self, versions: Sequence[int]) -> None:
        """Return once these commits would survive the loss of power."""
        ...

    def read_commit(self, version: int) -> bytes | None:
        """The bytes of a commit; None where there is none."""
        ...

    def versions(self, start: int = 0) -> list[int]:
        """The versions from `start` on that have a commit file, ascending."""
        ...

    def write_checkpoint(self, state: CheckpointState) -> CheckpointWritten:
        """Write a checkpoint, then point `_last_checkpoint` at it, never backwards."""
        ...

    def last_checkpoint(self) -> int | None:
        """The version `_last_checkpoint` names; None where there is none or it cannot be read."""
        ...
