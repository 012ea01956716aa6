"""Reading the ledger: state, files, commits, history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa

from deltasql.errors import LedgerCorruptError, VersionNotFoundError
from deltasql.ledger import statements as sql
from deltasql.ledger.arrow import files_from_arrow, files_table, tombstones_table
from deltasql.ledger.contracts import LIVE, HistoryEntry, RecordedCommit, TableEntry, TableHead, TableState
from deltasql.ledger.dialects import Session
from deltasql.ledger.engine import Ledger, asked_again
from deltasql.ledger.planning import Planner, rows_of
from deltasql.ledger.records import check_text
from deltasql.ledger.refusals import check_limit, check_version, no_table, no_version
from deltasql.ledger.registry import list_tables, require_table
from deltasql.ledger.rows import (
    ADD,
    ALL_TABLES,
    DOMAIN,
    METADATA,
    PROTOCOL,
    REMOVE,
    TXN,
    ActionTable,
    load_map,
)
from deltasql.protocol.actions import Action, CommitInfo, DomainMetadata, Metadata, SetTransaction
from deltasql.protocol.predicate import Predicate
from deltasql.protocol.schema import parse_schema

# How many metadata and protocols are kept.
_MAX_KNOWN = 1_024

# How many versions are read at once when a long range of commits is asked for.
_WINDOW = 256

_FILE_COLUMNS = tuple(name for name in ADD.columns if name not in ("dv_id", "extra", "file_key"))
_TOMBSTONE_COLUMNS = tuple(
    name for name in REMOVE.columns if name not in ("dv_id", "extra", "tags", "stats", "file_key")
)

_NULLABLE_TEXT = frozenset({"stats", "tags", "deletion_vector", "clustering_provider"})
# As many files as are not worth a way of their own.
_FEW = 1_000

# A tombstone without a time counts as made at time 0.
_NEWER = " AND COALESCE(deletion_timestamp, 0) > ?"


class SqlTxnLogReader:
    """The `TxnLogReader` of a SQL ledger. Every call sees one consistent state of the database."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # Metadata and protocols by the commit they came with: a table that is opened again is mostly as it was.
        self._known: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._seen: dict[int, TableState] = {}
        self._planner = Planner()

    @asked_again
    def tables(self) -> list[TableEntry]:
        with self._ledger.look() as session:
            return list_tables(session)

    @asked_again
    def table(self, name: str) -> TableEntry:
        with self._ledger.look() as session:
            return require_table(session, name)

    @asked_again
    def head(self, table: TableEntry) -> TableHead:
        with self._ledger.look() as session:
            return _head(session, table)

    @asked_again
    def heads(self) -> dict[str, int]:
        with self._ledger.look() as session:
            return dict(session.rows(sql.SELECT_HEADS))

    @asked_again
    def state(self, table: TableEntry, version: int | None = None) -> TableState:
        if version is None:
            return self._head_state(table)
        check_version(version)
        with self._ledger.read() as session:
            # A number that no database could hold is no version either.
            row = session.row(sql.SELECT_VERSION_TIME, (table.table_id, version)) if 0 <= version < LIVE else None
            if row is None:
                raise _no_version(session, table, f"version {version}")
            return TableState(
                version=version,
                timestamp=row[0],
                protocol=_latest(session, PROTOCOL, table, version),
                metadata=_latest(session, METADATA, table, version),
            )

    def _head_state(self, table: TableEntry) -> TableState:
        """One statement, where metadata and protocol are known from an earlier look."""
        with self._ledger.look() as session:
            row = session.row(sql.SELECT_HEAD_STATE, (table.table_id,))
        if row is None:
            raise no_table(table.name)
        version, timestamp, *origins = row
        state = TableState(
            version=version,
            timestamp=timestamp,
            protocol=self._description(PROTOCOL, table, *origins[2:]),
            metadata=self._description(METADATA, table, *origins[:2]),
        )
        self._seen[table.table_id] = state
        return state

    @asked_again
    def known_state(self, table: TableEntry) -> TableState:
        return self._seen.get(table.table_id) or self._head_state(table)

    def _description(self, source: ActionTable, table: TableEntry, version: int, digest: str) -> Any:
        """Metadata or protocol as a commit set it. The commit's hash tells a version that was made anew from it."""
        key = (source.name, table.table_id, version, digest)
        found = self._known.get(key)
        if found is None:
            with self._ledger.look() as session:
                found = _latest(session, source, table, version)
            # A checkpoint that a history began with has no hash to be known by.
            if digest:
                self._known[key] = found
                if len(self._known) > _MAX_KNOWN:
                    self._known.popitem(last=False)
        return found

    @asked_again
    def version_at(self, table: TableEntry, timestamp: int) -> int:
        # An instant that no database could hold is before or after all that are.
        timestamp = max(-LIVE, min(timestamp, LIVE))
        with self._ledger.read() as session:
            row = session.row(sql.SELECT_VERSION_AT, (table.table_id, timestamp))
            if row is None:
                raise _no_version(session, table, f"version as of {timestamp} ms")
            return int(row[0])

    @asked_again
    def version_of(self, table: TableEntry, token: str) -> int | None:
        check_text(token, "token")
        with self._ledger.read() as session:
            _head(session, table)
            row = session.row(sql.SELECT_TOKEN, (table.table_id, token))
            return None if row is None else int(row[0])

    def files(self, table: TableEntry, version: int, *, batch_size: int = 20_000) -> Iterator[pa.Table]:
        parameters = (table.table_id, version, version)
        with self._ledger.read() as session:
            rows = session.rows(f"{sql.select_alive(ADD, _FILE_COLUMNS)} LIMIT {_FEW}", parameters)
            if len(rows) < _FEW:
                yield from (files_table(rows[low : low + batch_size]) for low in range(0, len(rows), batch_size))
                return
            # What was alive at a version is so for ever: it may be asked for on another connection.
            dialect = session.dialect
            columns = tuple(dialect.text_or_mark(name) if name in _NULLABLE_TEXT else name for name in _FILE_COLUMNS)
            for batch in dialect.arrow(session, sql.select_alive(ADD, columns), parameters, batch_size):
                yield files_from_arrow(batch)

    def plan(
        self, table: TableEntry, version: int, predicate: Predicate, metadata: Metadata, *, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        schema = parse_schema(metadata.schema_string)
        with self._ledger.read() as session:
            queries = self._planner.plan(session, table, version, predicate, schema, metadata, _FILE_COLUMNS)
            for rows in rows_of(session, queries, batch_size):
                yield files_table(rows)

    @asked_again
    def count(self, table: TableEntry, version: int, *, newer_than: int) -> tuple[int, int]:
        with self._ledger.read() as session:
            files = session.row(sql.count_alive(ADD), (table.table_id, version, version))
            tombstones = session.row(
                sql.count_alive(REMOVE, where=_NEWER), (table.table_id, version, version, newer_than)
            )
        assert files is not None
        assert tombstones is not None
        return files[0], tombstones[0]

    def tombstones(
        self, table: TableEntry, version: int, *, newer_than: int, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        statement = sql.select_alive(REMOVE, _TOMBSTONE_COLUMNS, where=_NEWER)
        with self._ledger.read() as session:
            for rows in session.batches(statement, (table.table_id, version, version, newer_than), batch_size):
                yield tombstones_table(rows)

    @asked_again
    def transactions(self, table: TableEntry, version: int) -> list[SetTransaction]:
        return self._alive(TXN, table, version)

    @asked_again
    def domains(self, table: TableEntry, version: int) -> list[DomainMetadata]:
        return [domain for domain in self._alive(DOMAIN, table, version) if not domain.removed]

    def commits(self, table: TableEntry, start: int, end: int) -> Iterator[RecordedCommit]:
        end = min(end, self.head(table).version)
        for low in range(max(start, 0), end + 1, _WINDOW):
            with self._ledger.read() as session:
                found = load_commits(session, table.table_id, low, min(low + _WINDOW - 1, end))
            yield from found

    @asked_again
    def history(self, table: TableEntry, limit: int | None = None, *, since: int = -1) -> list[HistoryEntry]:
        check_limit(limit)
        statement = sql.SELECT_HISTORY if limit is None else f"{sql.SELECT_HISTORY} LIMIT ?"
        parameters = (table.table_id, since) if limit is None else (table.table_id, since, limit)
        with self._ledger.read() as session:
            rows = session.rows(statement, parameters)
        return [
            HistoryEntry(
                version=row[0],
                timestamp=row[1],
                operation=row[2],
                origin=row[3],
                commit_info=load_map(row[4]),
                mirror=row[5],
            )
            for row in rows
        ]

    def _alive(self, source: ActionTable, table: TableEntry, version: int) -> list[Any]:
        with self._ledger.read() as session:
            rows = session.rows(sql.select_alive(source, source.columns), (table.table_id, version, version))
        return [source.from_row(row) for row in rows]


def load_commits(session: Session, table_id: int, start: int, end: int) -> list[RecordedCommit]:
    """The commits of a range, their actions in the order they stand in the file."""
    versions = session.rows(sql.SELECT_VERSIONS, (table_id, start, end))
    actions: dict[int, list[tuple[int, Action]]] = {row[0]: [] for row in versions}
    for source in ALL_TABLES:
        for row in session.rows(sql.select_actions(source), (table_id, start, end)):
            actions[row[0]].append((row[1], source.from_row(row[2:])))
    commits: list[RecordedCommit] = []
    for version, timestamp, info, ordinal, digest, encoder, found_bytes, origin in versions:
        placed = actions[version]
        if info is not None and ordinal is not None:
            placed.append((ordinal, CommitInfo(load_map(info))))
        placed.sort(key=itemgetter(0))
        commits.append(
            RecordedCommit(
                version=version,
                timestamp=timestamp,
                sha256=digest,
                encoder=encoder,
                origin=origin,
                actions=[action for _, action in placed],
                found_bytes=found_bytes,
            )
        )
    return commits


def _head(session: Session, table: TableEntry) -> TableHead:
    row = session.row(sql.SELECT_HEAD, (table.table_id,))
    if row is None:
        raise no_table(table.name)
    return TableHead(version=row[0], timestamp=row[1])


def _latest(session: Session, source: ActionTable, table: TableEntry, version: int) -> Any:
    row = session.row(sql.select_latest(source), (table.table_id, version))
    if row is None:
        raise LedgerCorruptError(
            f"table {table.name!r} has no row in {source.name} at version {version}",
            hint="restore the ledger from a backup, or adopt the table's log again",
        )
    return source.from_row(row)


def _no_version(session: Session, table: TableEntry, wanted: str) -> VersionNotFoundError:
    head = _head(session, table)
    first = session.row(sql.SELECT_FIRST_VERSION, (table.table_id,))
    assert first is not None
    return no_version(table, wanted, TableHead(version=first[0], timestamp=first[1]), head)
