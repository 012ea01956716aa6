"""Taking a history written elsewhere into the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.changes import insert_columns
from deltasql.ledger.contracts import LIVE, RecordedCommit, TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change, Insert
from deltasql.ledger.heads import CLUSTERING_DOMAIN, Head
from deltasql.ledger.layout import PLACE_COLUMNS, Layout, Slot, choose_slots
from deltasql.ledger.placing import PARTITION_COLUMNS, SLOT_COLUMNS, clustering_columns
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, ActionTable, dump, text_key
from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
)

_LifeKey = tuple[str, ...]
_END_OF_FILE = len(sql.KEY) + len(ADD.columns)


class _Collector:
    """Rows of all tables, with their ends of life filled in while later commits are read."""

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id
        self.rows: dict[ActionTable, list[list[Any]]] = {}
        self._alive: dict[tuple[str, _LifeKey], list[Any]] = {}
        # The file of each row of ADD, to be placed when it is known which of them live.
        self._files: list[AddFile] = []

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
                if isinstance(action, AddFile):
                    self._files.append(action)
            case SetTransaction():
                self._end(TXN, (action.app_id,), version)
                self._begin(table, (action.app_id,), row)
            case DomainMetadata():
                self._end(DOMAIN, (action.domain,), version)
                self._begin(table, (action.domain,), row)
            case _:
                pass
        self.rows.setdefault(table, []).append(row)

    def place(self, layout: Layout) -> list[tuple[Any, ...]]:
        """Give each file its place; the rows of the partitions that there are. Only live ones are looked up by keys."""
        numbers: dict[str, int] = {}
        unknown = (None,) * (len(PLACE_COLUMNS) - 1)
        for row, add in zip(self.rows.get(ADD, ()), self._files, strict=True):
            number = numbers.setdefault(dump(add.partition_values), len(numbers))
            row += (number, *(layout.keys(add) if row[_END_OF_FILE] == LIVE else unknown))
        return [(self.table_id, number, text_key(text), text) for text, number in numbers.items()]

    def _begin(self, table: ActionTable, key: _LifeKey, row: list[Any]) -> None:
        row.append(LIVE)
        self._alive[table.name, key] = row

    def _end(self, table: ActionTable, key: _LifeKey, version: int) -> None:
        row = self._alive.pop((table.name, key), None)
        if row is not None:
            row[len(sql.KEY) + len(table.columns)] = version


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
    slots = _slots(history)
    partitions = collector.place(Layout.of(_metadata(history), slots))
    now = session.now()
    statuses = [(entry.table_id, commit.version, "SUCCESS", 0, now, now) for commit, _ in history]
    session.send(
        [
            Insert("dl_table_versions", sql.VERSION_COLUMNS, versions),
            *(Insert(table.name, insert_columns(table), rows) for table, rows in collector.rows.items()),
            Insert("dl_partitions", PARTITION_COLUMNS, partitions),
            Insert("dl_skipping_columns", SLOT_COLUMNS, [slot.to_row(entry.table_id) for slot in slots]),
            Insert("dl_mirror_status", sql.STATUS_COLUMNS, statuses),
            Change(sql.MOVE_HEAD, (*msgspec.structs.astuple(head), entry.table_id, -1)),
            Change(sql.MOVE_PUBLISHED, (head.version, entry.table_id, -1)),
        ]
    )


def _metadata(history: Sequence[tuple[RecordedCommit, int]]) -> Metadata:
    """The newest metadata; a history without any is refused before it gets here."""
    newest_first = (action for commit, _ in reversed(history) for action in commit.actions)
    return next(action for action in newest_first if isinstance(action, Metadata))


def _slots(history: Sequence[tuple[RecordedCommit, int]]) -> tuple[Slot, ...]:
    newest_first = (action for commit, _ in reversed(history) for action in commit.actions)
    domains = (a for a in newest_first if isinstance(a, DomainMetadata) and a.domain == CLUSTERING_DOMAIN)
    domain = next(domains, None)
    clustering = [] if domain is None or domain.removed else clustering_columns(domain.configuration)
    return choose_slots(_metadata(history), clustering)


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
