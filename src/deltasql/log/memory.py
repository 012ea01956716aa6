"""A log that is nothing but dictionaries: for tests, ours and our users'."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import msgspec

from deltasql.log.checkpoint import write_classic
from deltasql.log.target import CheckpointState, CheckpointWritten, ForeignFound, Published


class MemoryTarget:
    """A `MirrorTarget` without a store.

    `commits`, `timestamps`, `synced` and `checkpoints` may be read and changed at will: putting bytes into
    `commits` is how a test plays a foreign writer.
    """

    def __init__(self, url: str = "memory://table") -> None:
        self.url = url
        self._lock = Lock()
        self.commits: dict[int, bytes] = {}
        self.timestamps: dict[int, int] = {}
        self.synced: set[int] = set()
        self.checkpoints: dict[int, CheckpointState] = {}

    def publish(self, version: int, data: bytes, *, timestamp: int) -> Published | ForeignFound:
        with self._lock:
            found = self.commits.get(version)
            if found is None:
                self.commits[version] = data
                self.timestamps[version] = timestamp
                return Published(version=version, created=True)
        if found == data:
            return Published(version=version, created=False)
        return ForeignFound(version=version, found=found)

    def sync(self, versions: Sequence[int]) -> None:
        self.synced.update(versions)

    def read_commit(self, version: int) -> bytes | None:
        return self.commits.get(version)

    def versions(self, start: int = 0) -> list[int]:
        return sorted(version for version in self.commits if version >= start)

    def write_checkpoint(self, state: CheckpointState) -> CheckpointWritten:
        kept = msgspec.structs.replace(state, files=list(state.files), tombstones=list(state.tombstones))
        file = write_classic(kept)
        self.checkpoints[state.version] = kept
        return CheckpointWritten(version=state.version, actions=file.actions, bytes=len(file.data), files=file.files)

    def last_checkpoint(self) -> int | None:
        return max(self.checkpoints, default=None)
