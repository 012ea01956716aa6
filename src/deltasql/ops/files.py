"""Data files: rows to Parquet with their statistics, and back."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.errors import MalformedLogError, UnsupportedError
from deltasql.ledger.contracts import TableState
from deltasql.ops.services import Services
from deltasql.protocol.actions import AddFile
from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.partitions import parse_partition_value, partition_path, split_by_partition
from deltasql.protocol.paths import decode_path, encode_path, is_absolute
from deltasql.protocol.properties import CODEC, indexed_columns, stats_columns
from deltasql.protocol.schema import StructType, parse_schema
from deltasql.protocol.stats import collect_stats
from deltasql.storage.base import ObjectStore

# Of rows in memory; the Parquet file is several times smaller.
TARGET_FILE_BYTES = 512 * 1024 * 1024


def write_files(store: ObjectStore, state: TableState, data: pa.Table) -> list[AddFile]:
    """Write rows that fit the table as data files, synced, and describe them. Nothing refers to them yet."""
    metadata = state.metadata
    schema = parse_schema(metadata.schema_string)
    partitioned = metadata.partition_columns
    file_schema = StructType(tuple(field for field in schema.fields if field.name not in partitioned))
    codec = metadata.configuration.get(CODEC, "snappy").lower()
    adds: list[AddFile] = []
    for values, rows in split_by_partition(data, schema, partitioned):
        adds += [
            _write_file(store, metadata.configuration, file_schema, partitioned, values, part, codec)
            for part in _parts(rows)
        ]
    store.sync([decode_path(add.path) for add in adds])
    return adds


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.num_rows == 0:
        return
    step = max(1, rows.num_rows * TARGET_FILE_BYTES // max(rows.nbytes, TARGET_FILE_BYTES))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _write_file(
    store: ObjectStore,
    configuration: Mapping[str, str],
    schema: StructType,
    partitioned: Sequence[str],
    values: Mapping[str, str | None],
    rows: pa.Table,
    codec: str,
) -> AddFile:
    compression = "none" if codec == "uncompressed" else codec
    suffix = "" if compression == "none" else f".{compression}"
    name = f"part-00000-{uuid.uuid4()}-c000{suffix}.parquet"
    folder = partition_path(values, partitioned)
    key = f"{folder}/{name}" if folder else name
    buffer = io.BytesIO()
    # Spark's vectorised reader wants decimals as it writes them itself.
    pq.write_table(rows, buffer, compression=compression, store_decimal_as_integer=True)
    data = buffer.getvalue()
    store.put(key, data)
    limit = indexed_columns(configuration)
    return AddFile(
        path=encode_path(key),
        partition_values=values,
        size=len(data),
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=collect_stats(rows, schema, indexed=limit, columns=stats_columns(configuration)),
    )


def read_file(services: Services, location: str, state: TableState, add: AddFile) -> pa.Table:
    """The rows of one file in the table's schema, partition columns among them."""
    if add.deletion_vector is not None:
        raise UnsupportedError(
            f"{location}: {add.path} has a deletion vector, which this release does not read",
            hint="read this table by its path with Delta Spark, delta-rs or DuckDB",
            field="table",
        )
    schema = parse_schema(state.metadata.schema_string)
    wanted = schema_to_arrow(schema)
    raw = pq.ParquetFile(pa.BufferReader(_read_bytes(services, location, add.path)), coerce_int96_timestamp_unit="us")
    present = set(raw.schema_arrow.names)
    columns = [name for name in schema.names if name in present and name not in add.partition_values]
    rows = raw.read(columns=columns)
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for field, structure in zip(wanted, schema.fields, strict=True):
        if field.name in add.partition_values:
            value = parse_partition_value(add.partition_values[field.name], structure.type)
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows.num_rows))
        elif field.name in present:
            arrays.append(_cast(rows.column(field.name), field, add.path))
        else:
            # The column joined the table after this file was written.
            arrays.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=wanted)


def _cast(column: pa.ChunkedArray, field: pa.Field, path: str) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise MalformedLogError(
            f"{path}: column {field.name!r} is {column.type} there and cannot be read as {field.type}: {error}",
            hint="the file does not fit the table's schema: find out which writer made it",
            field=field.name,
        ) from error


def _read_bytes(services: Services, location: str, path: str) -> bytes:
    if not is_absolute(path):
        return services.store_at(location).get(decode_path(path))
    folder, _, name = path.rpartition("/")
    return services.store_at(folder).get(decode_path(name))
