"""Actions as rows of the ledger's tables, and back.

JSON stays text: a database's own JSON type would lose key order and the spelling of numbers, and with them the
bytes of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import orjson

from deltasql.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.jsonlog import dump_json

Row = Sequence[Any]


class ActionTable(msgspec.Struct, frozen=True):
    """Where one type of action is kept. `end` names the column that says until when a row counts."""

    name: str
    columns: tuple[str, ...]
    to_row: Callable[[Any], tuple[Any, ...]]
    from_row: Callable[[Row], Action]
    end: str | None = None


def dump(value: object) -> str:
    return dump_json(value).decode()


def dump_some(value: object) -> str | None:
    """JSON text, or NULL where there is nothing."""
    return dump(value) if value else None


def load(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def load_map(text: str | None) -> Mapping[str, Any]:
    return {} if text is None else orjson.loads(text)


def _texts(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(orjson.loads(text))


def _maybe(value: object) -> str | None:
    return None if value is None else dump(value)


def _flag(value: Any) -> bool | None:
    # SQLite has no booleans: it gives 0 and 1.
    return None if value is None else bool(value)


def _dump_vector(vector: DeletionVector | None) -> str | None:
    return None if vector is None else msgspec.json.encode(vector).decode()


def _load_vector(text: str | None) -> DeletionVector | None:
    return None if text is None else msgspec.json.decode(text, type=DeletionVector)


def file_key(path: str, dv_id: str) -> int:
    """A number to find a file by. Two files may share one, so the path is compared too."""
    return text_key(f"{path}\0{dv_id}")


def text_key(text: str) -> int:
    """A number to find a text by that may be too long for an index."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def _add_row(a: AddFile) -> tuple[Any, ...]:
    return (
        a.path,
        a.dv_id,
        dump(a.partition_values),
        a.size,
        a.modification_time,
        a.data_change,
        a.stats,
        _maybe(a.tags),
        _dump_vector(a.deletion_vector),
        a.base_row_id,
        a.default_row_commit_version,
        a.clustering_provider,
        dump_some(a.extra),
        file_key(a.path, a.dv_id),
    )


def _add(row: Row) -> AddFile:
    return AddFile(
        path=row[0],
        partition_values=load_map(row[2]),
        size=row[3],
        modification_time=row[4],
        data_change=bool(row[5]),
        stats=row[6],
        tags=load(row[7]),
        deletion_vector=_load_vector(row[8]),
        base_row_id=row[9],
        default_row_commit_version=row[10],
        clustering_provider=row[11],
        extra=load_map(row[12]),
    )


def _remove_row(a: RemoveFile) -> tuple[Any, ...]:
    return (
        a.path,
        a.dv_id,
        a.deletion_timestamp,
        a.data_change,
        a.extended_file_metadata,
        _maybe(a.partition_values),
        a.size,
        _maybe(a.tags),
        _dump_vector(a.deletion_vector),
        a.base_row_id,
        a.default_row_commit_version,
        a.stats,
        dump_some(a.extra),
        file_key(a.path, a.dv_id),
    )


def _remove(row: Row) -> RemoveFile:
    return RemoveFile(
        path=row[0],
        deletion_timestamp=row[2],
        data_change=bool(row[3]),
        extended_file_metadata=_flag(row[4]),
        partition_values=load(row[5]),
        size=row[6],
        tags=load(row[7]),
        deletion_vector=_load_vector(row[8]),
        base_row_id=row[9],
        default_row_commit_version=row[10],
        stats=row[11],
        extra=load_map(row[12]),
    )


def _metadata_row(a: Metadata) -> tuple[Any, ...]:
    layout = {"provider": a.format.provider, "options": a.format.options, **a.format.extra}
    return (
        a.id,
        a.name,
        a.description,
        dump(layout),
        a.schema_string,
        dump(a.partition_columns),
        dump(a.configuration),
        a.created_time,
        dump_some(a.extra),
    )


def _metadata(row: Row) -> Metadata:
    layout = dict(load_map(row[3]))
    return Metadata(
        id=row[0],
        name=row[1],
        description=row[2],
        format=Format(provider=layout.pop("provider"), options=layout.pop("options"), extra=layout),
        schema_string=row[4],
        partition_columns=_texts(row[5]) or (),
        configuration=load_map(row[6]),
        created_time=row[7],
        extra=load_map(row[8]),
    )


def _protocol_row(a: TableProtocol) -> tuple[Any, ...]:
    return (
        a.min_reader_version,
        a.min_writer_version,
        _maybe(a.reader_features),
        _maybe(a.writer_features),
        dump_some(a.extra),
    )


def _protocol(row: Row) -> TableProtocol:
    return TableProtocol(
        min_reader_version=row[0],
        min_writer_version=row[1],
        reader_features=_texts(row[2]),
        writer_features=_texts(row[3]),
        extra=load_map(row[4]),
    )


def _txn_row(a: SetTransaction) -> tuple[Any, ...]:
    return (a.app_id, a.version, a.last_updated, dump_some(a.extra))


def _txn(row: Row) -> SetTransaction:
    return SetTransaction(app_id=row[0], version=row[1], last_updated=row[2], extra=load_map(row[3]))


def _domain_row(a: DomainMetadata) -> tuple[Any, ...]:
    return (a.domain, a.configuration, a.removed, dump_some(a.extra))


def _domain(row: Row) -> DomainMetadata:
    return DomainMetadata(domain=row[0], configuration=row[1], removed=bool(row[2]), extra=load_map(row[3]))


def _cdc_row(a: AddCdcFile) -> tuple[Any, ...]:
    return (a.path, dump(a.partition_values), a.size, a.data_change, _maybe(a.tags), dump_some(a.extra))


def _cdc(row: Row) -> AddCdcFile:
    return AddCdcFile(
        path=row[0],
        partition_values=load_map(row[1]),
        size=row[2],
        data_change=bool(row[3]),
        tags=load(row[4]),
        extra=load_map(row[5]),
    )


def _other_row(a: UnknownAction | CommitInfo) -> tuple[Any, ...]:
    # A second commitInfo in one commit is legal and carried like any action we do not read.
    return ("commitInfo", dump(a.fields)) if isinstance(a, CommitInfo) else (a.name, dump(a.body))


def _other(row: Row) -> Action:
    body = orjson.loads(row[1])
    return CommitInfo(body) if row[0] == "commitInfo" else UnknownAction(row[0], body)


ADD = ActionTable(
    "dl_add_files",
    (
        "path",
        "dv_id",
        "partition_values",
        "size",
        "modification_time",
        "data_change",
        "stats",
        "tags",
        "deletion_vector",
        "base_row_id",
        "default_row_commit_version",
        "clustering_provider",
        "extra",
        "file_key",
    ),
    _add_row,
    _add,
    "removed_version",
)
REMOVE = ActionTable(
    "dl_remove_files",
    (
        "path",
        "dv_id",
        "deletion_timestamp",
        "data_change",
        "extended_file_metadata",
        "partition_values",
        "size",
        "tags",
        "deletion_vector",
        "base_row_id",
        "default_row_commit_version",
        "stats",
        "extra",
        "file_key",
    ),
    _remove_row,
    _remove,
    "superseded_version",
)
METADATA = ActionTable(
    "dl_metadata_updates",
    (
        "id",
        "name",
        "description",
        "format",
        "schema_string",
        "partition_columns",
        "configuration",
        "created_time",
        "extra",
    ),
    _metadata_row,
    _metadata,
)
PROTOCOL = ActionTable(
    "dl_protocol_updates",
    ("min_reader_version", "min_writer_version", "reader_features", "writer_features", "extra"),
    _protocol_row,
    _protocol,
)
TXN = ActionTable(
    "dl_txn_actions",
    ("app_id", "txn_version", "last_updated", "extra"),
    _txn_row,
    _txn,
    "superseded_version",
)
DOMAIN = ActionTable(
    "dl_domain_metadata",
    ("domain", "configuration", "removed", "extra"),
    _domain_row,
    _domain,
    "superseded_version",
)
CDC = ActionTable(
    "dl_cdc_files",
    ("path", "partition_values", "size", "data_change", "tags", "extra"),
    _cdc_row,
    _cdc,
)
OTHER = ActionTable("dl_other_actions", ("name", "body"), _other_row, _other)

ACTION_TABLES: dict[type, ActionTable] = {
    AddFile: ADD,
    RemoveFile: REMOVE,
    Metadata: METADATA,
    TableProtocol: PROTOCOL,
    SetTransaction: TXN,
    DomainMetadata: DOMAIN,
    AddCdcFile: CDC,
    UnknownAction: OTHER,
    CommitInfo: OTHER,
}
ALL_TABLES = (ADD, REMOVE, METADATA, PROTOCOL, TXN, DOMAIN, CDC, OTHER)
