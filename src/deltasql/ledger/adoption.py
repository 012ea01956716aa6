"""Taking a history written elsewhere into the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import LIVE, RecordedCommit, TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change, Insert
from deltasql.ledger.heads import Head
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, ActionTable, dump
from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    RemoveFile,
    SetTransaction,
)

_LifeKey = tuple[str, ...]


class _Collector:
    """Rows of all tables, with their ends of life filled in while later commits are read."""

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id
        self.rows: dict[ActionTable, list[list[Any]]] = {}
        self._alive: dict[tuple[str, _LifeKey], list[Any]] = {}

    def add(self, version: int, ordinal: int, action: Action) -> None:
        table = ACTION_TABLES[type(action)]
        row = [self.table_id, version, ordinal, *table.to_row(action)]
        match action:
            case AddFile() | RemoveFile():
                key: _LifeKey = (action.path, action.dv_id)
                # Either of the two ends whatever was known of this file before.
                self._end(ADD, key, version)
                self._end(REMOVE, key, version)
                self._begin(table, key, row)
            case SetTransaction():
                self._end(TXN, (action.app_id,), version)
                self._begin(table, (action.app_id,), row)
            case DomainMetadata():
                self._end(DOMAIN, (action.domain,), version)
                self._begin(table, (action.domain,), row)
            case _:
                pass
        self.rows.setdefault(table, []).append(row)

    def _begin(self, table: ActionTable, key: _LifeKey, row: list[Any]) -> None:
        row.append(LIVE)
        self._alive[table.name, key] = row

    def _end(self, table: ActionTable, key: _LifeKey, version: int) -> None:
        row = self._alive.pop((table.name, key), None)
        if row is not None:
            row[-1] = version


def insert_adopted(
    session: Session, entry: TableEntry, history: Sequence[tuple[RecordedCommit, int]], actor: str
) -> None:
    """Insert a whole history; every version counts as published, because it was found in the log."""
    collector = _Collector(entry.table_id)
    versions: list[tuple[Any, ...]] = []
    head = Head()
    for commit, size in history:
        place, info = _commit_info(commit)
        for ordinal, action in enumerate(commit.actions):
            if ordinal != place:
                collector.add(commit.version, ordinal, action)
        head = head.after(commit.actions, commit.version, commit.timestamp)
        versions.append((*_version_row(entry, commit, size, place, info), actor))
    now = session.now()
    statuses = [(entry.table_id, commit.version, "SUCCESS", 0, now, now) for commit, _ in history]
    session.send(
        [
            Insert("dl_table_versions", sql.VERSION_COLUMNS, versions),
            *(Insert(table.name, sql.action_columns(table), rows) for table, rows in collector.rows.items()),
            Insert("dl_mirror_status", sql.STATUS_COLUMNS, statuses),
            Change(sql.MOVE_HEAD, (*msgspec.structs.astuple(head), entry.table_id, -1)),
            Change(sql.MOVE_PUBLISHED, (head.version, entry.table_id, -1)),
        ]
    )


def _commit_info(commit: RecordedCommit) -> tuple[int | None, CommitInfo | None]:
    """The first commitInfo, which is kept with the version, and its place; a second one is an action like others."""
    infos = ((place, action) for place, action in enumerate(commit.actions) if isinstance(action, CommitInfo))
    return next(infos, (None, None))


def _version_row(
    entry: TableEntry, commit: RecordedCommit, size: int, place: int | None, info: CommitInfo | None
) -> tuple[Any, ...]:
    # The protocol leaves the content of commitInfo free: what stands as its operation need not be text.
    operation = None if info is None else info.fields.get("operation")
    return (
        entry.table_id,
        commit.version,
        commit.timestamp,
        operation if isinstance(operation, str) else None,
        None if info is None else dump(info.fields),
        place,
        len(commit.actions),
        size,
        commit.sha256,
        commit.encoder,
        commit.found_bytes,
        commit.origin,
        None,
        None,
    )
