"""Data files: rows to Parquet with their statistics, and back.

This module runs on executors too, so it imports no database.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.errors import MalformedLogError, UnsupportedError
from deltasql.protocol.actions import AddFile, Metadata
from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.column_mapping import (
    is_mapped,
    mapping_mode,
    physical_partitions,
    physical_schema,
)
from deltasql.protocol.column_paths import physical_name, physical_path
from deltasql.protocol.partitions import (
    directory_values,
    parse_partition_value,
    partition_path,
    split_by_partition,
)
from deltasql.protocol.paths import decode_path, encode_path, is_absolute
from deltasql.protocol.physical import from_physical, has_ids, locate, to_physical
from deltasql.protocol.properties import CODEC, indexed_columns, stats_columns
from deltasql.protocol.schema import StructField, StructType, parse_schema
from deltasql.protocol.stats import collect_stats
from deltasql.storage.base import ObjectStore
from deltasql.storage.locations import open_store

# Of rows in memory; the Parquet file is several times smaller.
TARGET_FILE_BYTES = 512 * 1024 * 1024
# What a writer holds back over all partitions before it closes the largest file.
BUFFER_BYTES = 1024 * 1024 * 1024


class RowWriter:
    """Turns a stream of rows that fit the table into data files.

    Rows wait in memory, by partition, until they fill a file; when all of them together are too many, the partition
    with the most is written out. So however many partitions there are, no file stays open and memory has a bound.
    Nothing refers to the files until their actions are committed.
    """

    def __init__(
        self,
        store: ObjectStore,
        metadata: Metadata,
        *,
        file_bytes: int = TARGET_FILE_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._schema = parse_schema(metadata.schema_string)
        self._mapped = is_mapped(metadata.configuration)
        partitioned = metadata.partition_columns
        self._file_schema = StructType(tuple(field for field in self._schema.fields if field.name not in partitioned))
        self._stats_columns = stats_columns(metadata.configuration)
        if self._mapped and self._stats_columns is not None:
            paths = (physical_path(self._schema, name.replace("`", "").split(".")) for name in self._stats_columns)
            self._stats_columns = tuple(".".join(path) for path in paths if path is not None)
        self._file_bytes = file_bytes
        self._buffer_bytes = buffer_bytes
        self._waiting: dict[tuple[str | None, ...], _Waiting] = {}
        self._adds: list[AddFile] = []

    def write(self, rows: pa.Table) -> None:
        parts = list(split_by_partition(rows, self._schema, self._metadata.partition_columns))
        for values, part in parts:
            waiting = self._waiting.setdefault(tuple(values.values()), _Waiting(values))
            # A slice would keep the rows of all other partitions in memory for as long as its own wait.
            waiting.add(part if len(parts) == 1 else _copied(part))
            if waiting.bytes >= self._file_bytes:
                self._flush(waiting)
        while sum(waiting.bytes for waiting in self._waiting.values()) > self._buffer_bytes:
            self._flush(max(self._waiting.values(), key=lambda waiting: waiting.bytes))

    def close(self) -> list[AddFile]:
        """Write out what is left, wait until every file would survive the loss of power, and describe them all."""
        for waiting in list(self._waiting.values()):
            self._flush(waiting)
        self._store.sync([decode_path(add.path) for add in self._adds])
        return self._adds

    def _flush(self, waiting: _Waiting) -> None:
        del self._waiting[tuple(waiting.values.values())]
        rows = pa.concat_tables(waiting.parts)
        # One large write may hold many files' worth.
        step = max(1, rows.num_rows * self._file_bytes // max(rows.nbytes, self._file_bytes))
        for start in range(0, rows.num_rows, step):
            self._adds.append(self._write_file(waiting.values, rows.slice(start, step)))

    def _write_file(self, values: Mapping[str, str | None], rows: pa.Table) -> AddFile:
        configuration = self._metadata.configuration
        codec = configuration.get(CODEC, "snappy").lower()
        compression = "none" if codec == "uncompressed" else codec
        suffix = "" if compression == "none" else f".{compression}"
        name = f"part-00000-{uuid.uuid4()}-c000{suffix}.parquet"
        partitions = physical_partitions(self._metadata)
        shown = directory_values(values, self._schema).values()
        folder = partition_path(dict(zip(partitions, shown, strict=True)), partitions)
        key = f"{folder}/{name}" if folder else name
        schema = self._file_schema
        if self._mapped:
            rows, schema = to_physical(rows, schema), physical_schema(schema)
        buffer = io.BytesIO()
        pq.write_table(
            rows,
            buffer,
            compression=compression,
            # Spark's vectorised reader wants decimals as it writes them itself.
            store_decimal_as_integer=True,
            write_statistics=_with_bounds(rows),
        )
        data = buffer.getvalue()
        self._store.put(key, data)
        return AddFile(
            path=encode_path(key),
            partition_values=dict(zip(partitions, values.values(), strict=True)),
            size=len(data),
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=collect_stats(
                rows,
                schema,
                indexed=indexed_columns(configuration),
                columns=self._stats_columns,
            ),
        )


class _Waiting:
    """The rows of one partition that are not in a file yet."""

    def __init__(self, values: Mapping[str, str | None]) -> None:
        self.values = values
        self.parts: list[pa.Table] = []
        self.bytes = 0

    def add(self, rows: pa.Table) -> None:
        self.parts.append(rows)
        self.bytes += rows.nbytes


def _with_bounds(rows: pa.Table) -> bool | list[str]:
    """The columns that get bounds inside the file: all, or those without NaN.

    Parquet's bounds leave NaN out, and Spark, for which it is the greatest number, would skip the rows that hold it.
    """
    leaves = [leaf for name in rows.column_names for leaf in _leaves(name, rows.column(name))]
    sound = [name for name, column in leaves if not _has_nan(column)]
    return True if len(sound) == len(leaves) else sound


def _leaves(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for field, child in zip(column.type, column.flatten(), strict=True):
        yield from _leaves(f"{name}.{field.name}", child)


def _has_nan(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py() is True


def _copied(rows: pa.Table) -> pa.Table:
    # Chunks are only put together, and so copied, where there are two.
    return pa.concat_tables([rows, rows.slice(0, 0)]).combine_chunks()


def write_files(store: ObjectStore, metadata: Metadata, rows: pa.Table) -> list[AddFile]:
    """Write rows that fit the table as data files and describe them."""
    writer = RowWriter(store, metadata)
    writer.write(rows)
    return writer.close()


def read_file(location: str, options: Mapping[str, str], metadata: Metadata, add: AddFile) -> pa.Table:
    """The rows of one file in the table's schema, partition columns among them."""
    if add.deletion_vector is not None:
        raise UnsupportedError(
            f"{location}: {add.path} has a deletion vector, which this release does not read",
            hint="read this table by its path with Delta Spark, delta-rs or DuckDB",
            field="table",
        )
    data = pa.BufferReader(_read_bytes(location, options, add.path))
    raw = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
    by_id = mapping_mode(metadata.configuration) == "id"
    if by_id and not has_ids(raw.schema_arrow):
        raise MalformedLogError(
            f"{add.path} has no field ids, and the table's columns are found by them",
            hint="the file does not fit the table's schema: find out which writer made it",
            field="table",
        )
    schema = parse_schema(metadata.schema_string)
    wanted = schema_to_arrow(schema)
    fields = list(raw.schema_arrow)
    places = [locate(fields, field, by_id=by_id) for field in schema.fields]
    partitioned = {name.casefold() for name in metadata.partition_columns}
    found = {
        field.name: fields[place].name
        for field, place in zip(schema.fields, places, strict=True)
        if place is not None and field.name.casefold() not in partitioned
    }
    rows = raw.read(columns=list(found.values()))
    columns: list[pa.ChunkedArray | pa.Array] = []
    for field, structure in zip(wanted, schema.fields, strict=True):
        if field.name.casefold() in partitioned:
            value = parse_partition_value(add.partition_values.get(physical_name(structure)), structure.type)
            columns.append(pa.repeat(pa.scalar(value, field.type), rows.num_rows))
        elif field.name in found:
            columns.append(_as_now(rows.column(found[field.name]), field, structure, add.path, by_id=by_id))
        else:
            # The column joined the table after this file was written.
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=wanted)


def _as_now(
    column: pa.ChunkedArray, field: pa.Field, structure: StructField, path: str, *, by_id: bool
) -> pa.ChunkedArray:
    try:
        return from_physical(column, structure, field.type, by_id=by_id)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MalformedLogError(
            f"{path}: column {field.name!r} is {column.type} there and cannot be read as {field.type}: {error}",
            hint="the file does not fit the table's schema: find out which writer made it",
            field=field.name,
        ) from error


def _read_bytes(location: str, options: Mapping[str, str], path: str) -> bytes:
    if not is_absolute(path):
        return open_store(location, options).get(decode_path(path))
    folder, _, name = path.rpartition("/")
    return open_store(folder, options).get(decode_path(name))
