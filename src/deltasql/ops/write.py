"""Append, overwrite, delete: from rows and predicates to the actions of a commit."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import InvalidInputError, UnsupportedError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.alter import evolved
from deltasql.ops.constraints import enforce
from deltasql.ops.files import write_files
from deltasql.ops.services import Services
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Action, AddFile, Metadata, RemoveFile
from deltasql.protocol.arrow import as_table
from deltasql.protocol.conflicts import Reads
from deltasql.protocol.features import check_readable, check_writable, keeps_row_ids
from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.predicate import Predicate, parse, to_sql
from deltasql.protocol.properties import append_only
from deltasql.protocol.rows import evaluate
from deltasql.protocol.skipping import matches_all


class _Deletion(msgspec.Struct):
    """What a deletion comes to: files to remove, files rewritten without the rows, and what was looked at."""

    removes: list[RemoveFile]
    adds: list[AddFile]
    reads: Reads
    deleted_rows: int
    copied_rows: int


def draft_append(
    services: Services, entry: TableEntry, snapshot: Snapshot, data: object, *, merge_schema: bool = False
) -> CommitDraft:
    """With `merge_schema` columns that only the data has join the table, and nullable ones it lacks become null."""
    given, metadata = as_table(data), snapshot.metadata
    if merge_schema:
        metadata = evolved(entry, snapshot, given.schema)
    rows = _fit(entry, snapshot, given, fresh_row_ids=True, metadata=metadata, fill=merge_schema)
    adds = write_files(services.store_at(entry.location), metadata, rows)
    draft = append_of(entry, snapshot.version, adds, rows.num_rows)
    return draft if metadata is snapshot.metadata else msgspec.structs.replace(draft, actions=[metadata, *adds])


def append_of(
    entry: TableEntry, read_version: int, adds: Sequence[AddFile], num_rows: int, token: str | None = None
) -> CommitDraft:
    """The commit that adds files that are written already."""
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=adds,
        operation="WRITE",
        parameters={"mode": "Append", "partitionBy": "[]"},
        metrics=_output_metrics(adds, num_rows),
        read_version=read_version,
        token=token,
    )


def draft_overwrite(
    services: Services, entry: TableEntry, snapshot: Snapshot, data: object, where: str | None = None
) -> CommitDraft:
    """Replace all rows, or those for which `where` is true; every new row must then satisfy it too."""
    fresh = where is None or not keeps_row_ids(snapshot.metadata)
    rows = _fit(entry, snapshot, data, fresh_row_ids=fresh)
    refuse_append_only(entry, snapshot)
    store = services.store_at(entry.location)
    if where is None:
        return overwrite_of(entry, snapshot, write_files(store, snapshot.metadata, rows), rows.num_rows)
    predicate = parse(where, snapshot.structure)
    _require_all(predicate, rows, where)
    deletion = _delete_rows(services, entry, snapshot, predicate)
    adds = write_files(store, snapshot.metadata, rows)
    return _overwrite(entry, snapshot, deletion, adds, rows.num_rows, {"predicate": to_sql(predicate)}, None)


def overwrite_of(
    entry: TableEntry, snapshot: Snapshot, adds: Sequence[AddFile], num_rows: int, token: str | None = None
) -> CommitDraft:
    """The commit that puts files that are written already in the place of everything the snapshot holds."""
    now = _now()
    deletion = _Deletion([_remove(add, now) for add in snapshot.adds()], [], Reads(whole_table=True), 0, 0)
    return _overwrite(entry, snapshot, deletion, adds, num_rows, {}, token)


def _overwrite(
    entry: TableEntry,
    snapshot: Snapshot,
    deletion: _Deletion,
    adds: Sequence[AddFile],
    num_rows: int,
    parameters: dict[str, str],
    token: str | None,
) -> CommitDraft:
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=[*deletion.removes, *deletion.adds, *adds],
        operation="WRITE",
        parameters={"mode": "Overwrite", "partitionBy": "[]", **parameters},
        metrics=_output_metrics(adds, num_rows) | _removal_metrics(deletion),
        read_version=snapshot.version,
        reads=deletion.reads,
        token=token,
    )


def draft_delete(
    services: Services, entry: TableEntry, snapshot: Snapshot, where: str | None = None
) -> CommitDraft | None:
    """Delete the rows for which `where` is true, or all. None where there are no such rows: nothing to commit."""
    fresh = not keeps_row_ids(snapshot.metadata)
    check_writable(entry.name, snapshot.protocol, snapshot.metadata, fresh_row_ids=fresh)
    refuse_append_only(entry, snapshot)
    predicate = parse("true" if where is None else where, snapshot.structure)
    deletion = _delete_rows(services, entry, snapshot, predicate)
    if not deletion.removes:
        return None
    metrics = _removal_metrics(deletion) | {
        "numAddedFiles": str(len(deletion.adds)),
        "numAddedBytes": str(sum(add.size for add in deletion.adds)),
        "numDeletedRows": str(deletion.deleted_rows),
        "numCopiedRows": str(deletion.copied_rows),
    }
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=[*deletion.removes, *deletion.adds],
        operation="DELETE",
        parameters={"predicate": dump_json([to_sql(predicate)]).decode()},
        metrics=metrics,
        read_version=snapshot.version,
        reads=deletion.reads,
    )


def _fit(
    entry: TableEntry,
    snapshot: Snapshot,
    data: object,
    *,
    fresh_row_ids: bool,
    metadata: Metadata | None = None,
    fill: bool = False,
) -> pa.Table:
    metadata = metadata or snapshot.metadata
    check_writable(entry.name, snapshot.protocol, metadata, fresh_row_ids=fresh_row_ids)
    return enforce(metadata, snapshot.protocol, as_table(data), table=entry.name, fill=fill)


def _delete_rows(services: Services, entry: TableEntry, snapshot: Snapshot, predicate: Predicate) -> _Deletion:
    check_readable(entry.name, snapshot.protocol, snapshot.metadata)
    now = _now()
    result = _Deletion([], [], Reads(), 0, 0)
    looked_at: set[tuple[str, str]] = set()
    for add in snapshot.planned(predicate):
        facts = snapshot.facts(add)
        looked_at.add((add.path, add.dv_id))
        if matches_all(predicate, facts):
            result.removes.append(_remove(add, now))
            result.deleted_rows += facts.num_records or 0
            continue
        rows = snapshot.rows(add)
        # A row for which the predicate is unknown stays.
        doomed = pc.fill_null(evaluate(predicate, rows), False)
        kept = rows.filter(pc.invert(doomed))
        if kept.num_rows == rows.num_rows:
            continue
        result.removes.append(_remove(add, now))
        result.adds.extend(write_files(services.store_at(entry.location), snapshot.metadata, kept))
        result.deleted_rows += rows.num_rows - kept.num_rows
        result.copied_rows += kept.num_rows
    result.reads = Reads(files=frozenset(looked_at), may_match=lambda add: snapshot.may_match(predicate, add))
    return result


def _require_all(predicate: Predicate, rows: pa.Table, where: str) -> None:
    matching = pc.fill_null(evaluate(predicate, rows), False)
    outside = rows.num_rows - (pc.sum(matching).as_py() or 0)
    if outside:
        raise InvalidInputError(
            f"{outside} of the new rows do not satisfy {where!r}",
            hint="overwrite only what the new rows cover: filter them, or widen the predicate",
            field="where",
        )


def refuse_append_only(entry: TableEntry, snapshot: Snapshot) -> None:
    if append_only(snapshot.metadata.configuration):
        raise UnsupportedError(
            f"table {entry.name!r} is append-only (delta.appendOnly = true)",
            hint="append to it, or use another table",
            field="table",
        )


def _remove(add: AddFile, now: int) -> RemoveFile:
    return RemoveFile(
        path=add.path,
        deletion_timestamp=now,
        data_change=True,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def _output_metrics(adds: Sequence[AddFile], rows: int) -> dict[str, str]:
    return {
        "numFiles": str(len(adds)),
        "numOutputRows": str(rows),
        "numOutputBytes": str(sum(add.size for add in adds)),
    }


def _removal_metrics(deletion: _Deletion) -> dict[str, str]:
    return {
        "numRemovedFiles": str(len(deletion.removes)),
        "numRemovedBytes": str(sum(remove.size or 0 for remove in deletion.removes)),
    }


def _now() -> int:
    return time.time_ns() // 1_000_000


def merge_appends(first: CommitDraft, second: CommitDraft) -> CommitDraft:
    """Two appends to one table in one transaction are one commit."""
    actions: list[Action] = [*first.actions, *second.actions]
    metrics = {name: str(int(first.metrics[name]) + int(second.metrics[name])) for name in first.metrics}
    return msgspec.structs.replace(first, actions=actions, metrics=metrics)
