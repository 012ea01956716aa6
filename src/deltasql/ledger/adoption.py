"""Taking a history written elsewhere into the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import LIVE, AdoptedBase, AdoptedCommit, Origin, TableEntry
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
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_commit, sha256
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


def insert_adopted(
    session: Session, entry: TableEntry, commits: Sequence[AdoptedCommit], base: AdoptedBase | None
) -> None:
    """Insert a whole history; every version counts as published, because it was found in the log."""
    collector = _Collector(entry.table_id)
    versions: list[tuple[Any, ...]] = []
    if base is not None:
        for ordinal, action in enumerate(base.actions):
            collector.add(base.version, ordinal, action)
        data = base.data
        versions.append(_version_row(entry, base.version, base.timestamp, base.actions, data, data, "checkpoint"))
    for commit in commits:
        info_seen = False
        for ordinal, action in enumerate(commit.actions):
            if isinstance(action, CommitInfo) and not info_seen:
                info_seen = True
                continue
            collector.add(commit.version, ordinal, action)
        found = None if encode_commit(commit.actions) == commit.data else commit.data
        versions.append(
            _version_row(entry, commit.version, commit.timestamp, commit.actions, commit.data, found, "adopted")
        )
    now = session.now()
    session.executemany(sql.INSERT_VERSION, versions)
    for statement, rows in collector.rows.items():
        session.executemany(statement, rows)
    session.executemany(sql.INSERT_STATUS, [(entry.table_id, row[1], "SUCCESS", 0, now, now) for row in versions])
    head, timestamp = versions[-1][1], versions[-1][2]
    session.execute(
        sql.MOVE_HEAD,
        (
            head,
            timestamp,
            collector.metadata_version,
            collector.protocol_version,
            collector.in_commit_timestamps,
            entry.table_id,
            -1,
        ),
    )
    session.execute(sql.MOVE_PUBLISHED, (head, entry.table_id, -1))


def _version_row(
    entry: TableEntry,
    version: int,
    timestamp: int,
    actions: Sequence[Action],
    data: bytes | None,
    found: bytes | None,
    origin: Origin,
) -> tuple[Any, ...]:
    place, info = next(
        ((place, action) for place, action in enumerate(actions) if isinstance(action, CommitInfo)), (None, None)
    )
    return (
        entry.table_id,
        version,
        timestamp,
        info.operation if info else None,
        dump(info.fields) if info else None,
        place,
        len(actions),
        len(data or b""),
        sha256(data) if data is not None else "",
        ENCODER_VERSION,
        found,
        origin,
        None,
        None,
    )
