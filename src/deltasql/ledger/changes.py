"""What a commit changes in the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import LIVE, TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import EndLives, Insert, Write
from deltasql.ledger.heads import Standing
from deltasql.ledger.layout import PLACE_COLUMNS
from deltasql.ledger.refusals import not_a_file
from deltasql.ledger.rows import ACTION_TABLES, ADD, DOMAIN, REMOVE, TXN, ActionTable, dump, file_key
from deltasql.protocol.actions import Action, AddFile, CommitInfo, DomainMetadata, RemoveFile, SetTransaction
from deltasql.protocol.jsonlog import ENCODER_VERSION, encode_action, sha256

_FILE = ("file_key", "path", "dv_id")


class CommitWrites(msgspec.Struct, frozen=True):
    """The statements of one commit, all but the one that moves the head."""

    entry: TableEntry
    version: int
    statements: list[Write]
    # The place among them of the one that ends the lives of removed files, and those files.
    removal: int | None
    removes: Sequence[RemoveFile]

    def check(self, session: Session, counts: Sequence[int]) -> None:
        """Refuse the removal of what is no file of the table: each must have ended one life."""
        if self.removal is None or counts[self.removal] == len(self.removes):
            return
        # The ends are noted already, so what this transaction has not ended is what was no file.
        known = {
            (row[0], row[1])
            for remove in self.removes
            for row in session.rows(sql.SELECT_ENDED, (self.entry.table_id, _file(remove)[0], self.version))
        }
        strangers = (remove.path for remove in self.removes if (remove.path, remove.dv_id) not in known)
        raise not_a_file(self.entry.name, next(strangers, "a file named twice"))


def commit_writes(
    entry: TableEntry,
    standing: Standing,
    info: CommitInfo,
    operation: str,
    token: str,
    group_id: str | None,
    actor: str,
    places: Sequence[tuple[int | None, ...]],
) -> CommitWrites:
    """Everything but the head: the version, its actions, the ends of what they replace, the debt to publish."""
    version, timestamp = standing.head.version, standing.head.timestamp
    data = encode_action(info) + standing.lines
    row = (
        entry.table_id,
        version,
        timestamp,
        operation,
        dump(info.fields),
        0,
        len(standing.actions) + 1,
        len(data),
        sha256(data),
        ENCODER_VERSION,
        None,
        "written",
        token,
        group_id,
        actor,
    )
    debt = (entry.table_id, version, "PENDING", 0, timestamp, None)
    removes = [action for action in standing.actions if isinstance(action, RemoveFile)]
    # Lives end before others begin: a file may be removed and added again with another deletion vector.
    ends = _ends(entry.table_id, version, standing.actions, removes)
    statements: list[Write] = [
        *ends,
        Insert("dl_table_versions", sql.VERSION_COLUMNS, [row]),
        *_inserts(entry.table_id, version, standing.actions, places),
        Insert("dl_mirror_status", sql.STATUS_COLUMNS, [debt]),
    ]
    return CommitWrites(entry, version, statements, 0 if removes else None, removes)


def _ends(table_id: int, version: int, actions: Sequence[Action], removes: Sequence[RemoveFile]) -> list[EndLives]:
    """The ends of what these actions replace; first those of removed files."""

    def end(table: ActionTable, key: tuple[str, ...], keys: Sequence[tuple[Any, ...]]) -> list[EndLives]:
        assert table.end is not None
        return [EndLives(table.name, table.end, key, table_id, version, keys)] if keys else []

    removed = [_file(action) for action in removes]
    added = [_file(action) for action in actions if isinstance(action, AddFile)]
    applications = [(action.app_id,) for action in actions if isinstance(action, SetTransaction)]
    domains = [(action.domain,) for action in actions if isinstance(action, DomainMetadata)]
    return [
        *end(ADD, _FILE, removed),
        *end(REMOVE, _FILE, removed),
        *end(ADD, _FILE, added),
        *end(REMOVE, _FILE, added),
        *end(TXN, ("app_id",), applications),
        *end(DOMAIN, ("domain",), domains),
    ]


def _file(action: AddFile | RemoveFile) -> tuple[int, str, str]:
    return (file_key(action.path, action.dv_id), action.path, action.dv_id)


def _inserts(
    table_id: int, version: int, actions: Sequence[Action], places: Sequence[tuple[int | None, ...]]
) -> list[Insert]:
    rows: dict[ActionTable, list[tuple[Any, ...]]] = {}
    place = iter(places)
    for ordinal, action in enumerate(actions, start=1):
        table = ACTION_TABLES[type(action)]
        row = (table_id, version, ordinal, *table.to_row(action))
        if table is ADD:
            row = (*row, LIVE, *next(place))
        elif table.end:
            row = (*row, LIVE)
        rows.setdefault(table, []).append(row)
    return [Insert(table.name, insert_columns(table), batch) for table, batch in rows.items()]


def insert_columns(table: ActionTable) -> tuple[str, ...]:
    """The columns of a row as it is inserted: of a file with its place."""
    return sql.action_columns(table) + (PLACE_COLUMNS if table is ADD else ())
