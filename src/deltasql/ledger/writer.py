"""Commits: one SQL transaction holds the version, its actions and the debt to publish it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.errors import InvalidInputError, LedgerBusyError, TableExistsError
from deltasql.failpoints import failpoint
from deltasql.ledger import statements as sql
from deltasql.ledger.adoption import insert_adopted
from deltasql.ledger.contracts import LIVE, AdoptedBase, AdoptedCommit, CommitDraft, TableEntry
from deltasql.ledger.engine import Ledger, Session
from deltasql.ledger.reader import load_commits
from deltasql.ledger.registry import find_table, insert_table, require_table
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, dump
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import (
    ACTION_TYPES,
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.conflicts import find_conflict
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_action, encode_commit, sha256
from deltasql.protocol.properties import in_commit_timestamps
from deltasql.protocol.replay import commit_problem
from deltasql.version import ENGINE_INFO

_ORDER = {kind: place for place, kind in enumerate(ACTION_TYPES.values())}


class _Head(msgspec.Struct):
    """The head row of a table, locked for this transaction."""

    table_id: int
    version: int
    timestamp: int
    metadata_version: int
    protocol_version: int
    in_commit_timestamps: bool


class _Prepared(msgspec.Struct):
    """A draft with everything that can be done before the lock is taken."""

    draft: CommitDraft
    actions: list[Action]
    lines: bytes


class _Lost(Exception):
    """Carries a conflict out of the transaction, so that it is rolled back."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(conflict.detail)
        self.conflict = conflict


class SqlTxnLogWriter:
    """The `TxnLogWriter` of a SQL ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        if not drafts:
            return ()
        prepared = [_prepare(draft) for draft in drafts]
        names = [draft.table for draft in drafts]
        if len(set(names)) != len(names):
            raise InvalidInputError(
                "a transaction holds one commit a table",
                hint="put everything for a table into one commit",
                field="table",
            )
        try:
            with self._ledger.write() as session:
                result = _commit(session, prepared)
                failpoint("before_sql_commit")
        except _Lost as lost:
            return lost.conflict
        failpoint("after_sql_commit")
        return result

    def adopt(
        self, name: str, location: str, commits: Sequence[AdoptedCommit], base: AdoptedBase | None = None
    ) -> TableEntry:
        with self._ledger.write() as session:
            entry = _create(session, name, location)
            insert_adopted(session, entry, commits, base)
        return entry


def _prepare(draft: CommitDraft) -> _Prepared:
    if any(isinstance(action, CommitInfo) for action in draft.actions):
        raise InvalidInputError(
            "commitInfo is written by the ledger", hint="leave it out of the actions", field="actions"
        )
    if problem := commit_problem(draft.actions):
        raise InvalidInputError(f"{draft.table}: {problem}", hint="give each of them once", field="actions")
    actions = sorted(draft.actions, key=lambda action: _ORDER.get(type(action), len(_ORDER)))
    return _Prepared(draft, actions, encode_commit(actions))


def _commit(session: Session, prepared: Sequence[_Prepared]) -> tuple[Committed, ...]:
    entries = [_resolve(session, item.draft) for item in prepared]
    # Locked in the same order by everyone, so that two transactions over the same tables never wait for each other.
    heads: dict[int, _Head] = {}
    for entry in sorted(entries, key=lambda entry: entry.table_id):
        heads[entry.table_id] = _lock_head(session, entry.table_id)
    if replayed := _find_tokens(session, prepared, entries):
        return replayed
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
        raise TableExistsError(
            f"table {name!r} exists already", hint="use lake.table(name), or another name", field="name"
        )
    if taken := session.row(sql.SELECT_TABLE_AT, (location,)):
        raise TableExistsError(
            f"{location} is the location of table {taken[1]!r}", hint="use that table", field="location"
        )
    entry = insert_table(session, name, location)
    session.execute(sql.INSERT_HEAD, (entry.table_id, -1, 0, -1, -1, False))
    session.execute(sql.INSERT_MIRROR_HEAD, (entry.table_id, -1, None))
    return entry


def _lock_head(session: Session, table_id: int) -> _Head:
    row = session.row(sql.SELECT_HEAD + session.dialect.lock_row, (table_id,))
    assert row is not None, "a table and its head are created together"
    return _Head(table_id, *row)


def _find_tokens(
    session: Session, prepared: Sequence[_Prepared], entries: Sequence[TableEntry]
) -> tuple[Committed, ...] | None:
    """What an earlier try of the same transaction came to, where its answer was lost."""
    found: list[Committed] = []
    for item, entry in zip(prepared, entries, strict=True):
        if item.draft.token is None:
            return None
        row = session.row(sql.SELECT_TOKEN, (entry.table_id, item.draft.token))
        if row is not None:
            found.append(
                Committed(table=entry.name, version=row[0], timestamp=row[1], group_id=row[2], replayed=True)
            )
    if found and len(found) != len(prepared):
        raise InvalidInputError(
            "the commit token was used before, for other tables",
            hint="use a new token for a new transaction",
            field="token",
        )
    return tuple(found) if found else None


def _check(session: Session, item: _Prepared, head: _Head) -> None:
    """Refuse what cannot stand on the present head."""
    draft = item.draft
    if draft.create_at is not None or draft.read_version is None:
        return
    if not 0 <= draft.read_version <= head.version:
        raise InvalidInputError(
            f"{draft.table}: version {draft.read_version} was not committed; the newest is {head.version}",
            hint="give the version you read",
            field="read_version",
        )
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
        raise _Lost(conflict)


def _write(
    session: Session,
    item: _Prepared,
    entry: TableEntry,
    head: _Head,
    timestamp: int,
    txn_id: str,
    group: dict[str, int] | None,
) -> Committed:
    draft, version = item.draft, head.version + 1
    moved = _moved_head(head, item.actions, version, timestamp)
    info = _commit_info(draft, moved, timestamp, txn_id, group)
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


def _commit_info(
    draft: CommitDraft, moved: _Head, timestamp: int, txn_id: str, group: dict[str, int] | None
) -> CommitInfo:
    fields: dict[str, Any] = {"inCommitTimestamp": timestamp} if moved.in_commit_timestamps else {}
    fields["timestamp"] = timestamp
    fields["operation"] = draft.operation
    fields["operationParameters"] = dict(draft.parameters)
    if draft.read_version is not None:
        fields["readVersion"] = draft.read_version
    fields["isolationLevel"] = "Serializable"
    fields["isBlindAppend"] = draft.reads.blind and not any(
        isinstance(action, RemoveFile | Metadata) for action in draft.actions
    )
    if draft.metrics:
        fields["operationMetrics"] = dict(draft.metrics)
    if draft.user_metadata is not None:
        fields["userMetadata"] = draft.user_metadata
    if group:
        fields["tags"] = {"deltasql.groupId": txn_id, "deltasql.participants": dump(group)}
    fields["engineInfo"] = ENGINE_INFO
    fields["txnId"] = txn_id
    return CommitInfo(fields)


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
                raise InvalidInputError(
                    f"{entry.name}: {row[2]!r} is not a file of the table",
                    hint="remove only files of the version you read",
                    field="actions",
                )
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
