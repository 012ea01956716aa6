"""Commits: one SQL transaction holds the version, its actions and the debt to publish it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.errors import LedgerBusyError
from deltasql.failpoints import failpoint
from deltasql.ledger import statements as sql
from deltasql.ledger.adoption import insert_adopted
from deltasql.ledger.contracts import LIVE, AdoptedBase, AdoptedCommit, CommitDraft, TableEntry
from deltasql.ledger.engine import Ledger, Session
from deltasql.ledger.reader import load_commits
from deltasql.ledger.records import LostRaceError, Prepared, check_text, commit_info, prepare, record_history, replayed
from deltasql.ledger.refusals import check_read_version, location_taken, not_a_file, table_exists
from deltasql.ledger.registry import check_name, find_table, insert_table, require_table
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, dump
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.conflicts import find_conflict
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_action, sha256
from deltasql.protocol.properties import in_commit_timestamps


class _Head(msgspec.Struct):
    """The head row of a table, locked for this transaction."""

    table_id: int
    version: int
    timestamp: int
    metadata_version: int
    protocol_version: int
    in_commit_timestamps: bool


class SqlTxnLogWriter:
    """The `TxnLogWriter` of a SQL ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        if not drafts:
            return ()
        prepared = prepare(drafts)
        try:
            with self._ledger.write() as session:
                result = _commit(session, prepared)
                failpoint("before_sql_commit")
        except LostRaceError as lost:
            return lost.conflict
        failpoint("after_sql_commit")
        return result

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
        with self._ledger.write() as session:
            entry = _create(session, name, location)
            insert_adopted(session, entry, history)
            if checkpoint_version is not None:
                session.execute(sql.MOVE_CHECKPOINT, (checkpoint_version, entry.table_id, checkpoint_version))
        return entry


def _commit(session: Session, prepared: Sequence[Prepared]) -> tuple[Committed, ...]:
    entries = [_resolve(session, item.draft) for item in prepared]
    # Locked in the same order by everyone, so that two transactions over the same tables never wait for each other.
    heads: dict[int, _Head] = {}
    for entry in sorted(entries, key=lambda entry: entry.table_id):
        heads[entry.table_id] = _lock_head(session, entry.table_id)
    found = [_find_token(session, item.draft, entry) for item, entry in zip(prepared, entries, strict=True)]
    if earlier := replayed(found):
        return earlier
    for item, entry in zip(prepared, entries, strict=True):
        _check(session, item, heads[entry.table_id])
    # One instant for all tables of the transaction, strictly after everything that was committed to any of them.
    timestamp = max(session.now(), *(head.timestamp + 1 for head in heads.values()))
    txn_id = str(uuid.uuid4())
    group = {entry.name: heads[entry.table_id].version + 1 for entry in entries} if len(entries) > 1 else None
    return tuple(
        _write(session, item, entry, heads[entry.table_id], timestamp, txn_id, group)
        for item, entry in zip(prepared, entries, strict=True)
    )


def _resolve(session: Session, draft: CommitDraft) -> TableEntry:
    if draft.create_at is None:
        return require_table(session, draft.table)
    existing = find_table(session, draft.table) if draft.token is not None else None
    if existing is not None and session.row(sql.SELECT_TOKEN, (existing.table_id, draft.token)):
        return existing
    return _create(session, draft.table, draft.create_at)


def _create(session: Session, name: str, location: str) -> TableEntry:
    if find_table(session, name) is not None:
        raise table_exists(name)
    if taken := session.row(sql.SELECT_TABLE_AT, (location,)):
        raise location_taken(location, taken[1])
    entry = insert_table(session, name, location)
    session.execute(sql.INSERT_HEAD, (entry.table_id, -1, 0, -1, -1, False))
    session.execute(sql.INSERT_MIRROR_HEAD, (entry.table_id, -1, None))
    return entry


def _lock_head(session: Session, table_id: int) -> _Head:
    row = session.row(sql.SELECT_HEAD + session.dialect.lock_row, (table_id,))
    assert row is not None, "a table and its head are created together"
    return _Head(table_id, *row)


def _find_token(session: Session, draft: CommitDraft, entry: TableEntry) -> Committed | None:
    row = None if draft.token is None else session.row(sql.SELECT_TOKEN, (entry.table_id, draft.token))
    if row is None:
        return None
    return Committed(table=entry.name, version=row[0], timestamp=row[1], group_id=row[2], replayed=True)


def _check(session: Session, item: Prepared, head: _Head) -> None:
    """Refuse what cannot stand on the present head."""
    draft = item.draft
    if draft.create_at is not None or draft.read_version is None:
        return
    check_read_version(draft, head.version)
    if draft.read_version == head.version:
        return
    unseen = draft.read_version + 1
    # An append needs no look at what others wrote, as long as the table is still the one it was written for.
    watched = (RemoveFile, SetTransaction, DomainMetadata)
    if (
        draft.reads.blind
        and max(head.metadata_version, head.protocol_version) < unseen
        and not any(isinstance(action, watched) for action in item.actions)
    ):
        return
    commits = load_commits(session, head.table_id, unseen, head.version)
    winners = ((commit.version, commit.actions) for commit in commits)
    conflict = find_conflict(draft.table, draft.reads, item.actions, winners)
    if conflict is not None:
        raise LostRaceError(conflict)


def _write(
    session: Session,
    item: Prepared,
    entry: TableEntry,
    head: _Head,
    timestamp: int,
    txn_id: str,
    group: dict[str, int] | None,
) -> Committed:
    draft, version = item.draft, head.version + 1
    moved = _moved_head(head, item.actions, version, timestamp)
    info = commit_info(
        draft,
        timestamp=timestamp,
        in_commit_timestamps=moved.in_commit_timestamps,
        txn_id=txn_id,
        group=group,
    )
    data = encode_action(info) + item.lines
    group_id = txn_id if group else None
    session.execute(
        sql.INSERT_VERSION,
        (
            entry.table_id,
            version,
            timestamp,
            draft.operation,
            dump(info.fields),
            0,
            len(item.actions) + 1,
            len(data),
            sha256(data),
            ENCODER_VERSION,
            None,
            "written",
            draft.token,
            group_id,
        ),
    )
    _end_lives(session, entry, version, item.actions)
    _insert_actions(session, entry.table_id, version, item.actions)
    session.execute(sql.INSERT_STATUS, (entry.table_id, version, "PENDING", 0, timestamp, None))
    set_head = (
        version,
        timestamp,
        moved.metadata_version,
        moved.protocol_version,
        moved.in_commit_timestamps,
        entry.table_id,
        head.version,
    )
    if session.execute(sql.MOVE_HEAD, set_head).rowcount != 1:
        raise LedgerBusyError(
            f"{entry.name}: the head moved although its row was locked", hint="repeat the commit; nothing was written"
        )
    failpoint("after_head_moved")
    return Committed(table=entry.name, version=version, timestamp=timestamp, group_id=group_id)


def _moved_head(head: _Head, actions: Sequence[Action], version: int, timestamp: int) -> _Head:
    moved = msgspec.structs.replace(head, version=version, timestamp=timestamp)
    for action in actions:
        if isinstance(action, Metadata):
            moved.metadata_version = version
            moved.in_commit_timestamps = in_commit_timestamps(action.configuration)
        elif isinstance(action, TableProtocol):
            moved.protocol_version = version
    return moved


def _end_lives(session: Session, entry: TableEntry, version: int, actions: Sequence[Action]) -> None:
    """Note on the rows that these actions replace until when they counted."""
    table_id = entry.table_id
    adds = [(version, table_id, a.path, a.dv_id) for a in actions if isinstance(a, AddFile)]
    removes = [(version, table_id, a.path, a.dv_id) for a in actions if isinstance(a, RemoveFile)]
    key = ("path", "dv_id")
    end_file, end_tombstone = sql.end_life(ADD, key), sql.end_life(REMOVE, key)
    if removes:
        for row in removes:
            if session.execute(end_file, row).rowcount != 1:
                raise not_a_file(entry.name, row[2])
        session.executemany(end_tombstone, removes)
    if adds:
        session.executemany(end_file, adds)
        session.executemany(end_tombstone, adds)
    for action in actions:
        if isinstance(action, SetTransaction):
            session.execute(sql.end_life(TXN, ("app_id",)), (version, table_id, action.app_id))
        elif isinstance(action, DomainMetadata):
            session.execute(sql.end_life(DOMAIN, ("domain",)), (version, table_id, action.domain))


def _insert_actions(session: Session, table_id: int, version: int, actions: Sequence[Action]) -> None:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for ordinal, action in enumerate(actions, start=1):
        table = ACTION_TABLES[type(action)]
        row = (table_id, version, ordinal, *table.to_row(action))
        rows.setdefault(sql.insert_action(table), []).append((*row, LIVE) if table.end else row)
    for statement, batch in rows.items():
        session.executemany(statement, batch)
