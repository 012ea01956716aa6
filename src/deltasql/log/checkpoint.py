"""Classic checkpoints: a table's state as one Parquet file, made from what the ledger holds."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.errors import LedgerCorruptError, MalformedLogError
from deltasql.log.target import CheckpointState
from deltasql.protocol.actions import DomainMetadata, Metadata, SetTransaction, TableProtocol
from deltasql.protocol.files import FILES, TEXT_MAP, TOMBSTONES

# Batches are gathered until a row group has at least this many rows.
ROW_GROUP_ROWS = 100_000

_TEXT_LIST = pa.list_(pa.string())

_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", TEXT_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", TEXT_MAP),
        ("deletionVector", _DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
        ("stats", pa.string()),
    ]
)

# Tombstones serve VACUUM alone, so the protocol leaves out their statistics and tags.
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", TEXT_MAP),
        ("size", pa.int64()),
        ("deletionVector", _DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)

# In the order Delta Spark writes the columns.
CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", _ADD),
        ("remove", _REMOVE),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", _TEXT_LIST),
                    ("configuration", TEXT_MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", _TEXT_LIST),
                    ("writerFeatures", _TEXT_LIST),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
    ]
)

# The property's values and what Parquet calls them. Each file names its own codec, so any other value is safe
# to answer with the default.
_CODECS = {
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}


class ClassicCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A finished checkpoint file that has no name yet."""

    data: bytes
    actions: int
    files: int


def write_classic(state: CheckpointState) -> ClassicCheckpoint:
    """The checkpoint of one state as Parquet, row group by row group.

    What was written is counted against what the ledger promised and against the finished file: a checkpoint that
    lacks rows is valid Parquet, and nobody would notice.
    """
    properties = state.metadata.configuration
    schema = _schema(with_stats=properties.get("delta.checkpoint.writeStatsAsJson", "true").lower() != "false")
    counted = _Counted()
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema,
        compression=_CODECS.get(properties.get("delta.parquet.compression.codec", "snappy").lower(), "snappy"),
        # Other engines' types are the truth here; Arrow's own schema would only be noise in the footer.
        store_schema=False,
    ) as writer:
        for group in _row_groups(_rows(state, schema, counted)):
            writer.write_table(group)
    data = sink.getvalue()

    _expect(state, "files", expected=state.num_files, found=counted.files)
    _expect(state, "tombstones", expected=state.num_tombstones, found=counted.tombstones)
    actions = counted.others + counted.files + counted.tombstones
    stored = pq.read_metadata(pa.BufferReader(data)).num_rows
    if stored != actions:
        raise MalformedLogError(
            f"the checkpoint of version {state.version} holds {stored} of {actions} actions",
            hint="it was not put into the log; try again, and check the memory and the pyarrow of this machine",
        )
    return ClassicCheckpoint(data=data, actions=actions, files=counted.files)


class _Counted(msgspec.Struct):
    others: int = 0
    files: int = 0
    tombstones: int = 0


def _schema(*, with_stats: bool) -> pa.Schema:
    if with_stats:
        return CHECKPOINT
    add = pa.struct([field for field in _ADD if field.name != "stats"])
    return CHECKPOINT.set(CHECKPOINT.get_field_index("add"), pa.field("add", add))


def _expect(state: CheckpointState, what: str, *, expected: int, found: int) -> None:
    if found != expected:
        raise LedgerCorruptError(
            f"version {state.version}: the ledger counts {expected} {what} and lists {found}",
            hint="no checkpoint was written; run `deltasql verify` on the table",
            field=what,
        )


def _rows(state: CheckpointState, schema: pa.Schema, counted: _Counted) -> Iterator[pa.Table]:
    """The checkpoint's rows, one action each: the few without files first, as one table."""
    others = _other_actions(state)
    counted.others = len(others)
    yield pa.Table.from_pylist(others, schema=schema)
    for batch in _batches(state.files, FILES):
        counted.files += batch.num_rows
        yield _file_rows("add", batch, schema, required=("path", "partition_values", "size", "modification_time"))
    for batch in _batches(state.tombstones, TOMBSTONES):
        counted.tombstones += batch.num_rows
        yield _file_rows("remove", batch, schema, required=("path",))


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Gather tables until they are worth a row group."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


# -- rows without files ---------------------------------------------------------------------------------------------


def _other_actions(state: CheckpointState) -> list[dict[str, Any]]:
    return [
        {"protocol": _protocol(state.protocol)},
        {"metaData": _metadata(state.metadata)},
        *({"txn": _txn(transaction)} for transaction in state.transactions),
        *({"domainMetadata": _domain(domain)} for domain in state.domains if not domain.removed),
    ]


def _protocol(action: TableProtocol) -> dict[str, Any]:
    return {
        "minReaderVersion": action.min_reader_version,
        "minWriterVersion": action.min_writer_version,
        "readerFeatures": action.reader_features,
        "writerFeatures": action.writer_features,
    }


def _metadata(action: Metadata) -> dict[str, Any]:
    return {
        "id": action.id,
        "name": action.name,
        "description": action.description,
        "format": {"provider": action.format.provider, "options": list(action.format.options.items())},
        "schemaString": action.schema_string,
        "partitionColumns": action.partition_columns,
        "configuration": list(action.configuration.items()),
        "createdTime": action.created_time,
    }


def _txn(action: SetTransaction) -> dict[str, Any]:
    return {"appId": action.app_id, "version": action.version, "lastUpdated": action.last_updated}


def _domain(action: DomainMetadata) -> dict[str, Any]:
    return {"domain": action.domain, "configuration": action.configuration, "removed": False}


# -- rows of files --------------------------------------------------------------------------------------------------


def _batches(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.select(schema.names).cast(schema).to_batches()


def _file_rows(column: str, batch: pa.RecordBatch, schema: pa.Schema, *, required: tuple[str, ...]) -> pa.Table:
    """File rows of the ledger as rows of a checkpoint: a struct in `column`, null in every other."""
    for name in required:
        if batch.column(name).null_count:
            raise LedgerCorruptError(
                f"{batch.column(name).null_count} of the table's files have no {name}",
                hint="no checkpoint was written; run `deltasql verify` on the table",
                field=name,
            )
    fields = list(schema.field(column).type)
    values = {_camel(name): array for name, array in zip(batch.schema.names, batch.columns, strict=True)}
    # A checkpoint changes no data, whatever the commit did that it sums up.
    values["dataChange"] = pa.repeat(False, batch.num_rows)
    values["deletionVector"] = _deletion_vectors(values["deletionVector"])
    struct = pa.StructArray.from_arrays([values[field.name] for field in fields], fields=fields)
    return pa.Table.from_arrays(
        [struct if field.name == column else pa.nulls(batch.num_rows, field.type) for field in schema], schema=schema
    )


def _deletion_vectors(vectors: pa.StructArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(vectors.flatten(), fields=list(_DELETION_VECTOR), mask=vectors.is_null())


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
