"""Taking a history written elsewhere into the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import LIVE, RecordedCommit, TableEntry
from deltasql.ledger.engine import Session
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, ActionTable, dump
from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.properties import in_commit_timestamps

_LifeKey = tuple[str, ...]


class _Collector:
    """Rows of all tables, with their ends of life filled in while later commits are read."""

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id
        self.rows: dict[str, list[list[Any]]] = {}
        self._alive: dict[tuple[str, _LifeKey], list[Any]] = {}
        self.metadata_version = -1
        self.protocol_version = -1
        self.in_commit_timestamps = False

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
            case Metadata():
                self.metadata_version = version
                self.in_commit_timestamps = in_commit_timestamps(action.configuration)
            case TableProtocol():
                self.protocol_version = version
            case _:
                pass
        self.rows.setdefault(sql.insert_action(table), []).append(row)

    def _begin(self, table: ActionTable, key: _LifeKey, row: list[Any]) -> None:
        row.append(LIVE)
        self._alive[table.name, key] = row

    def _end(self, table: ActionTable, key: _LifeKey, version: int) -> None:
        row = self._alive.pop((table.name, key), None)
        if row is not None:
            row[-1] = version


def insert_adopted(session: Session, entry: TableEntry, history: Sequence[tuple[RecordedCommit, int]]) -> None:
    """Insert a whole history; every version counts as published, because it was found in the log."""
    collector = _Collector(entry.table_id)
    versions: list[tuple[Any, ...]] = []
    for commit, size in history:
        place, info = _commit_info(commit)
        for ordinal, action in enumerate(commit.actions):
            if ordinal != place:
                collector.add(commit.version, ordinal, action)
        versions.append(_version_row(entry, commit, size, place, info))
    now = session.now()
    session.executemany(sql.INSERT_VERSION, versions)
    for statement, rows in collector.rows.items():
        session.executemany(statement, rows)
    session.executemany(sql.INSERT_STATUS, [(entry.table_id, c.version, "SUCCESS", 0, now, now) for c, _ in history])
    head, _ = history[-1]
    session.execute(
        sql.MOVE_HEAD,
        (
            head.version,
            head.timestamp,
            collector.metadata_version,
            collector.protocol_version,
            collector.in_commit_timestamps,
            entry.table_id,
            -1,
        ),
    )
    session.execute(sql.MOVE_PUBLISHED, (head.version, entry.table_id, -1))


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
