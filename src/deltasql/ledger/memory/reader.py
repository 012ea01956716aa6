"""Reading a ledger in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from deltasql.ledger.contracts import HistoryEntry, MirrorState, RecordedCommit, TableEntry, TableHead, TableState
from deltasql.ledger.memory.tables import Contents
from deltasql.ledger.records import check_text
from deltasql.ledger.refusals import check_limit, check_version, no_table, no_version
from deltasql.ledger.registry import check_name
from deltasql.protocol.actions import (
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
)
from deltasql.protocol.files import DELETION_VECTOR, FILES, TOMBSTONES
from deltasql.protocol.predicate import Predicate


class MemoryTxnLogReader:
    """The `TxnLogReader` of a ledger in memory."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def tables(self) -> list[TableEntry]:
        return sorted((table.entry for table in self._contents.tables()), key=lambda entry: entry.name)

    def table(self, name: str) -> TableEntry:
        check_name(name)
        for entry in self.tables():
            if entry.name == name:
                return entry
        raise no_table(name)

    def head(self, table: TableEntry) -> TableHead:
        return self._contents.table(table).head

    def heads(self) -> dict[str, int]:
        return {table.entry.name: table.head.version for table in self._contents.tables()}

    def state(self, table: TableEntry, version: int | None = None) -> TableState:
        found = self._contents.table(table)
        wanted = found.head.version if version is None else version
        check_version(wanted)
        for commit in found.commits:
            if commit.version == wanted:
                protocol, metadata = found.at(wanted).require(table.name)
                return TableState(version=wanted, timestamp=commit.timestamp, protocol=protocol, metadata=metadata)
        raise no_version(table, f"version {wanted}", found.first, found.head)

    def known_state(self, table: TableEntry) -> TableState:
        return self.state(table)

    def version_at(self, table: TableEntry, timestamp: int) -> int:
        found = self._contents.table(table)
        versions = [commit.version for commit in found.commits if commit.timestamp <= timestamp]
        if not versions:
            raise no_version(table, f"version as of {timestamp} ms", found.first, found.head)
        return versions[-1]

    def version_of(self, table: TableEntry, token: str) -> int | None:
        check_text(token, "token")
        found = self._contents.table(table).tokens.get(token)
        return None if found is None else found.version

    def files(self, table: TableEntry, version: int, *, batch_size: int = 20_000) -> Iterator[pa.Table]:
        files = self._contents.table(table).at(version).files
        return _batches(list(files.values()), FILES, batch_size)

    def tombstones(
        self, table: TableEntry, version: int, *, newer_than: int, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        return _batches(self._tombstones(table, version, newer_than), TOMBSTONES, batch_size)

    def plan(
        self, table: TableEntry, version: int, predicate: Predicate, metadata: Metadata, *, batch_size: int = 20_000
    ) -> Iterator[pa.Table]:
        # It has no index: any file may match.
        del predicate, metadata
        return self.files(table, version, batch_size=batch_size)

    def count(self, table: TableEntry, version: int, *, newer_than: int) -> tuple[int, int]:
        files = self._contents.table(table).at(version).files
        return len(files), len(self._tombstones(table, version, newer_than))

    def transactions(self, table: TableEntry, version: int) -> list[SetTransaction]:
        return list(self._contents.table(table).at(version).transactions.values())

    def domains(self, table: TableEntry, version: int) -> list[DomainMetadata]:
        domains = self._contents.table(table).at(version).domains
        return [domain for domain in domains.values() if not domain.removed]

    def commits(self, table: TableEntry, start: int, end: int) -> Iterator[RecordedCommit]:
        yield from (commit for commit in self._contents.table(table).commits if start <= commit.version <= end)

    def history(self, table: TableEntry, limit: int | None = None, *, since: int = -1) -> list[HistoryEntry]:
        found = self._contents.table(table)
        check_limit(limit)
        newer = [commit for commit in found.commits[::-1] if commit.version > since]
        return [_history_entry(commit, found.statuses[commit.version].state) for commit in newer[:limit]]

    def _tombstones(self, table: TableEntry, version: int, newer_than: int) -> list[RemoveFile]:
        tombstones = self._contents.table(table).at(version).tombstones
        # A tombstone without a time counts as made at time 0.
        return [remove for remove in tombstones.values() if (remove.deletion_timestamp or 0) > newer_than]


def _history_entry(commit: RecordedCommit, mirror: MirrorState) -> HistoryEntry:
    info = next((action for action in commit.actions if isinstance(action, CommitInfo)), CommitInfo({}))
    operation = info.fields.get("operation")
    return HistoryEntry(
        version=commit.version,
        timestamp=commit.timestamp,
        operation=operation if isinstance(operation, str) else None,
        origin=commit.origin,
        commit_info=info.fields,
        mirror=mirror,
    )


def _batches(actions: Sequence[AddFile | RemoveFile], schema: pa.Schema, size: int) -> Iterator[pa.Table]:
    for start in range(0, len(actions), size):
        batch = actions[start : start + size]
        rows = [{name: _cell(getattr(action, name)) for name in schema.names} for action in batch]
        yield pa.Table.from_pylist(rows, schema=schema)


def _cell(value: Any) -> Any:
    if isinstance(value, DeletionVector):
        return {name: getattr(value, name) for name in DELETION_VECTOR.names}
    return list(cast("Mapping[str, object]", value).items()) if isinstance(value, Mapping) else value
