"""A ledger that is nothing but lists of commits: for tests, ours and our users'."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, cast

import msgspec
import pyarrow as pa

from deltasql.ledger.contracts import (
    AdoptedBase,
    AdoptedCommit,
    CommitDraft,
    HistoryEntry,
    Lease,
    MirrorHead,
    MirrorStatus,
    RecordedCommit,
    TableEntry,
    TableHead,
    TableState,
)
from deltasql.ledger.outbox import MAX_ERROR_TEXT
from deltasql.ledger.records import Prepared, check_text, commit_info, prepare, record_history, replayed
from deltasql.ledger.refusals import (
    check_published,
    check_read_version,
    lease_lost,
    location_taken,
    no_table,
    no_version,
    not_a_file,
    published_elsewhere,
    table_exists,
)
from deltasql.ledger.registry import check_name
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import AddFile, CommitInfo, DomainMetadata, Metadata, RemoveFile, SetTransaction
from deltasql.protocol.conflicts import find_conflict
from deltasql.protocol.files import DELETION_VECTOR, FILES, TOMBSTONES
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_commit, sha256
from deltasql.protocol.properties import in_commit_timestamps
from deltasql.protocol.replay import Replay


class _Table(msgspec.Struct):
    entry: TableEntry
    commits: list[RecordedCommit] = []
    statuses: list[MirrorStatus] = []
    tokens: dict[str, Committed] = {}
    mirror: MirrorHead = MirrorHead(
        published_version=-1, checkpoint_version=None, quarantined_version=None, quarantine_reason=None
    )
    lease: Lease | None = None
    fence: int = 0
    leased_until: int = 0

    def copy(self) -> _Table:
        return msgspec.structs.replace(
            self, commits=[*self.commits], statuses=[*self.statuses], tokens={**self.tokens}
        )

    @property
    def head(self) -> TableHead:
        return _head_at(self.commits[-1]) if self.commits else TableHead(version=-1, timestamp=0)

    def at(self, version: int) -> Replay:
        """The state after every commit up to `version`."""
        replay = Replay()
        for commit in self.commits:
            if commit.version <= version:
                replay.apply(commit.actions)
        return replay

    def append(self, commit: RecordedCommit, status: MirrorStatus) -> None:
        self.commits.append(commit)
        self.statuses.append(status)


def _head_at(commit: RecordedCommit) -> TableHead:
    return TableHead(version=commit.version, timestamp=commit.timestamp)


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryLedger:
    """A ledger in memory, safe to use from many threads of one process.

    `writer`, `reader` and `outbox` behave like those of a SQL ledger, to the bytes of a commit. `clock` gives
    milliseconds and may be replaced at any time: time then goes as a test wants it to.
    """

    def __init__(self, clock: Callable[[], int] = _system_clock) -> None:
        self.clock = clock
        self.lock = Lock()
        self.tables: dict[int, _Table] = {}
        self.writer = MemoryTxnLogWriter(self)
        self.reader = MemoryTxnLogReader(self)
        self.outbox = MemoryOutbox(self)

    def find(self, name: str) -> _Table | None:
        return next((table for table in self.tables.values() if table.entry.name == name), None)

    def require(self, entry: TableEntry) -> _Table:
        table = self.tables.get(entry.table_id)
        if table is None:
            raise no_table(entry.name)
        return table


class MemoryTxnLogWriter:
    """The `TxnLogWriter` of a ledger in memory."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        if not drafts:
            return ()
        prepared = prepare(drafts)
        with self._ledger.lock:
            # Everything happens to copies, which take the place of the tables at the end: all of them, or none.
            staged = dict(self._ledger.tables)
            tables = [self._stage(staged, item.draft) for item in prepared]
            known = [table.tokens.get(item.draft.token or "") for item, table in zip(prepared, tables, strict=True)]
            if earlier := replayed(known):
                return earlier
            for item, table in zip(prepared, tables, strict=True):
                if conflict := _find_conflict(item, table):
                    return conflict
            results = _append(prepared, tables, self._ledger.clock())
            self._ledger.tables = staged
            return results

    def adopt(
        self,
        name: str,
        location: str,
        commits: Sequence[AdoptedCommit],
        base: AdoptedBase | None = None,
        checkpoint_version: int | None = None,
    ) -> TableEntry:
        check_name(name)
        check_text(location, "location")
        history = record_history(commits, base)
        with self._ledger.lock:
            staged = dict(self._ledger.tables)
            table = _create(staged, name, location)
            now = self._ledger.clock()
            for commit, size in history:
                status = _status(commit, size, now)
                table.append(commit, msgspec.structs.replace(status, state="SUCCESS", published_at=now))
            table.mirror = msgspec.structs.replace(
                table.mirror, published_version=table.head.version, checkpoint_version=checkpoint_version
            )
            self._ledger.tables = staged
            return table.entry

    def _stage(self, staged: dict[int, _Table], draft: CommitDraft) -> _Table:
        found = self._ledger.find(draft.table)
        if draft.create_at is not None and not (found and draft.token in found.tokens):
            return _create(staged, draft.table, draft.create_at)
        if found is None:
            raise no_table(draft.table)
        staged[found.entry.table_id] = found.copy()
        return staged[found.entry.table_id]


def _create(staged: dict[int, _Table], name: str, location: str) -> _Table:
    for table in staged.values():
        if table.entry.name == name:
            raise table_exists(name)
        if table.entry.location == location:
            raise location_taken(location, table.entry.name)
    entry = TableEntry(table_id=len(staged) + 1, name=name, location=location)
    staged[entry.table_id] = _Table(entry)
    return staged[entry.table_id]


def _find_conflict(item: Prepared, table: _Table) -> Conflict | None:
    draft, head = item.draft, table.head.version
    conflict = None
    if draft.create_at is None and draft.read_version is not None:
        check_read_version(draft, head)
        winners = ((c.version, c.actions) for c in table.commits if c.version > draft.read_version)
        conflict = find_conflict(draft.table, draft.reads, item.actions, winners)
    return conflict


def _append(prepared: Sequence[Prepared], tables: Sequence[_Table], now: int) -> tuple[Committed, ...]:
    # One instant for all tables of the transaction, strictly after everything that was committed to any of them.
    timestamp = max(now, *(table.head.timestamp + 1 for table in tables))
    txn_id = str(uuid.uuid4())
    versions = {table.entry.name: table.head.version + 1 for table in tables}
    group = versions if len(tables) > 1 else None
    results: list[Committed] = []
    for item, table in zip(prepared, tables, strict=True):
        version = versions[table.entry.name]
        before = table.at(version - 1)
        for action in item.actions:
            if isinstance(action, RemoveFile) and (action.path, action.dv_id) not in before.files:
                raise not_a_file(table.entry.name, action.path)
        metadata = next((a for a in item.actions if isinstance(a, Metadata)), before.metadata)
        assert metadata is not None
        timed = in_commit_timestamps(metadata.configuration)
        info = commit_info(
            item.draft, timestamp=timestamp, in_commit_timestamps=timed, txn_id=txn_id, group=group
        )
        actions = [info, *item.actions]
        data = encode_commit(actions)
        commit = RecordedCommit(
            version=version,
            timestamp=timestamp,
            sha256=sha256(data),
            encoder=ENCODER_VERSION,
            origin="written",
            actions=actions,
        )
        table.append(commit, _status(commit, len(data), timestamp))
        result = Committed(
            table=table.entry.name, version=version, timestamp=timestamp, group_id=txn_id if group else None
        )
        if item.draft.token is not None:
            table.tokens[item.draft.token] = msgspec.structs.replace(result, replayed=True)
        results.append(result)
    return tuple(results)


def _status(commit: RecordedCommit, size: int, now: int) -> MirrorStatus:
    return MirrorStatus(
        version=commit.version,
        state="PENDING",
        attempts=0,
        created_at=now,
        attempted_at=None,
        published_at=None,
        error_class=None,
        error=None,
        bytes=size,
        sha256=commit.sha256,
    )
