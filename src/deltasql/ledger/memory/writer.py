"""Commits to a ledger in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec.structs import replace

from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit, CommitDraft, RecordedCommit, TableEntry
from deltasql.ledger.heads import stand
from deltasql.ledger.memory.tables import Contents, MemoryTable
from deltasql.ledger.records import LostRaceError, Prepared, check_text, commit_info, prepare, record_history, replayed
from deltasql.ledger.refusals import check_read_version, location_taken, no_table, not_a_file, table_exists
from deltasql.ledger.registry import check_name
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import CommitInfo, RemoveFile
from deltasql.protocol.conflicts import find_conflict
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_action, sha256

_Tables = dict[int, MemoryTable]


class MemoryTxnLogWriter:
    """The `TxnLogWriter` of a ledger in memory."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        if not drafts:
            return ()
        prepared = prepare(drafts)
        try:
            with self._contents.change() as tables:
                return _commit(tables, prepared, self._contents)
        except LostRaceError as lost:
            return lost.conflict

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
        now = self._contents.clock()
        with self._contents.change() as tables:
            table = _create(tables, name, location, next(self._contents.numbers))
            for commit, size in history:
                table.append(commit, size, now)
            published = table.head.version
            table.mirror = replace(table.mirror, published_version=published, checkpoint_version=checkpoint_version)
        return table.entry


def _commit(tables: _Tables, prepared: Sequence[Prepared], contents: Contents) -> tuple[Committed, ...]:
    pairs = [(item, _stage(tables, item.draft, contents)) for item in prepared]
    if earlier := replayed([_known(table, item.draft) for item, table in pairs]):
        return earlier
    for item, table in pairs:
        _check(item, table)
    # One instant for all tables of the transaction, strictly after everything that was committed to any of them.
    timestamp = max(contents.clock(), *(table.head.timestamp + 1 for _, table in pairs))
    txn_id = str(uuid.uuid4())
    group = {table.entry.name: table.head.version + 1 for _, table in pairs} if len(pairs) > 1 else None
    return tuple(_append(item, table, timestamp, txn_id, group) for item, table in pairs)


def _stage(tables: _Tables, draft: CommitDraft, contents: Contents) -> MemoryTable:
    """The table to commit to, as a copy that may be changed."""
    found = next((table for table in tables.values() if table.entry.name == draft.table), None)
    if draft.create_at is not None and (found is None or _known(found, draft) is None):
        return _create(tables, draft.table, draft.create_at, next(contents.numbers))
    if found is None or draft.table_id not in (None, found.entry.table_id):
        raise no_table(draft.table)
    tables[found.entry.table_id] = copied = found.copy()
    return copied


def _known(table: MemoryTable, draft: CommitDraft) -> Committed | None:
    known = None if draft.token is None else table.tokens.get(draft.token)
    if known is not None or draft.txn is None or not table.commits:
        return known
    seen = table.at(table.head.version).transactions.get(draft.txn.app_id)
    if seen is None or seen.version < draft.txn.version:
        return None
    for commit in reversed(table.commits):
        if seen in commit.actions:
            return _replayed(table.entry.name, commit)
    return None


def _replayed(name: str, commit: RecordedCommit) -> Committed:
    info = next((action for action in commit.actions if isinstance(action, CommitInfo)), CommitInfo({}))
    group_id = info.fields.get("tags", {}).get("deltasql.groupId")
    return Committed(table=name, version=commit.version, timestamp=commit.timestamp, group_id=group_id, replayed=True)


def _create(tables: _Tables, name: str, location: str, table_id: int) -> MemoryTable:
    for table in tables.values():
        if table.entry.name == name:
            raise table_exists(name)
    for table in tables.values():
        if table.entry.location == location:
            raise location_taken(location, table.entry.name)
    entry = TableEntry(table_id=table_id, name=name, location=location)
    tables[entry.table_id] = created = MemoryTable(entry)
    return created


def _check(item: Prepared, table: MemoryTable) -> None:
    """Refuse what cannot stand on the present head."""
    draft = item.draft
    if draft.create_at is not None or draft.read_version is None:
        return
    check_read_version(draft, table.head.version)
    winners = ((commit.version, commit.actions) for commit in table.commits if commit.version > draft.read_version)
    if conflict := find_conflict(draft.table, draft.reads, item.actions, winners, isolation=draft.isolation):
        raise LostRaceError(conflict)


def _append(item: Prepared, table: MemoryTable, timestamp: int, txn_id: str, group: dict[str, int] | None) -> Committed:
    _check_removes(item, table)
    name, version = table.entry.name, table.head.version + 1
    standing = stand(item, table.standing, timestamp)
    timed = standing.head.in_commit_timestamps
    info = commit_info(item.draft, timestamp=timestamp, in_commit_timestamps=timed, txn_id=txn_id, group=group)
    data = encode_action(info) + standing.lines
    commit = RecordedCommit(
        version=version,
        timestamp=timestamp,
        sha256=sha256(data),
        encoder=ENCODER_VERSION,
        origin="written",
        actions=[info, *standing.actions],
    )
    table.append(commit, len(data), timestamp)
    result = Committed(table=name, version=version, timestamp=timestamp, group_id=txn_id if group else None)
    if item.draft.token is not None:
        table.tokens[item.draft.token] = replace(result, replayed=True)
    return result


def _check_removes(item: Prepared, table: MemoryTable) -> None:
    removes = [action for action in item.actions if isinstance(action, RemoveFile)]
    files = table.at(table.head.version).files if removes else {}
    for remove in removes:
        if (remove.path, remove.dv_id) not in files:
            raise not_a_file(table.entry.name, remove.path)
