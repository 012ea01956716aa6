"""What a ledger in memory holds: a table is a list of commits, and everything else is worked out by replaying them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from threading import Lock

import msgspec
from msgspec.structs import replace

from deltasql.ledger.contracts import Lease, MirrorHead, MirrorStatus, RecordedCommit, TableEntry, TableHead
from deltasql.ledger.heads import Head
from deltasql.ledger.refusals import no_table
from deltasql.outcomes import Committed
from deltasql.protocol.replay import Replay

_NEW = MirrorHead(published_version=-1, checkpoint_version=None, quarantined_version=None, quarantine_reason=None)


class MemoryTable(msgspec.Struct):
    """One table. It is never changed where others can see it: a copy is, which then takes its place."""

    entry: TableEntry
    commits: list[RecordedCommit] = []
    statuses: dict[int, MirrorStatus] = {}
    tokens: dict[str, Committed] = {}
    mirror: MirrorHead = _NEW
    standing: Head = Head()
    lease: Lease | None = None
    leased_until: int = 0

    def copy(self) -> MemoryTable:
        return replace(self, commits=[*self.commits], statuses={**self.statuses}, tokens={**self.tokens})

    @property
    def first(self) -> TableHead:
        return _head(self.commits[0])

    @property
    def head(self) -> TableHead:
        return _head(self.commits[-1]) if self.commits else TableHead(version=-1, timestamp=0)

    def at(self, version: int) -> Replay:
        """The state after every commit up to `version`."""
        replay = Replay()
        for commit in self.commits:
            if commit.version <= version:
                replay.apply(commit.actions)
        return replay

    def append(self, commit: RecordedCommit, size: int, now: int) -> None:
        """Add a commit, and the debt to publish it where it was made here."""
        self.commits.append(commit)
        self.standing = self.standing.after(commit.actions, commit.version, commit.timestamp)
        found = commit.origin != "written"
        self.statuses[commit.version] = MirrorStatus(
            version=commit.version,
            state="SUCCESS" if found else "PENDING",
            attempts=0,
            created_at=now,
            attempted_at=None,
            published_at=now if found else None,
            error_class=None,
            error=None,
            bytes=size,
            sha256=commit.sha256,
        )


def _head(commit: RecordedCommit) -> TableHead:
    return TableHead(version=commit.version, timestamp=commit.timestamp)


class Contents:
    """What the sides of one ledger share."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        # The number of a dropped table is never given to another.
        self.numbers = count(1)
        self._lock = Lock()
        self._tables: dict[int, MemoryTable] = {}

    def tables(self) -> list[MemoryTable]:
        with self._lock:
            return list(self._tables.values())

    def table(self, entry: TableEntry) -> MemoryTable:
        """The table as it is now."""
        with self._lock:
            return self._require(entry)

    @contextmanager
    def change(self) -> Generator[dict[int, MemoryTable]]:
        """The tables, for putting changed copies in: all are kept at the end of the block, none where it raises."""
        with self._lock:
            staged = dict(self._tables)
            yield staged
            self._tables = staged

    @contextmanager
    def change_table(self, entry: TableEntry) -> Generator[MemoryTable]:
        """A copy of one table, kept at the end of the block unless it raises."""
        with self._lock:
            changed = self._require(entry).copy()
            yield changed
            self._tables[entry.table_id] = changed

    def _require(self, entry: TableEntry) -> MemoryTable:
        if entry.table_id not in self._tables:
            raise no_table(entry.name)
        return self._tables[entry.table_id]
