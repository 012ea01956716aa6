"""`format("deltasql")`: the Python data source.

Spark runs none of this in the user's process: `schema`, `writer` and `commit` run beside the driver, `write` and
`read` on executors, each in a Python process of its own. So everything that crosses is text or a plain value.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType as SparkStruct

from deltasql.errors import ConfigError
from deltasql.ledger.contracts import TableEntry
from deltasql.ops.constraints import enforce
from deltasql.ops.services import Services, open_services
from deltasql.ops.snapshot import Snapshot, snapshot_at
from deltasql.ops.write import append_of, overwrite_of, refuse_append_only
from deltasql.protocol.actions import AddFile, Metadata
from deltasql.protocol.features import check_readable, check_writable
from deltasql.protocol.predicate import Predicate, parse
from deltasql.protocol.predicate_tree import all_of
from deltasql.protocol.schema import parse_schema
from deltasql.spark.filters import to_predicate
from deltasql.spark.options import SourceOptions, parse_options
from deltasql.spark.reach import require_reach
from deltasql.spark.tasks import WriteTask, read_rows, write_rows

# How much one read task takes on, so that small files share one.
_TASK_BYTES = 64 * 1024 * 1024
# Until SPARK-58551, which brought limits too, all scans of one DataFrame share what the last of them pushed: after
# `df.filter(…)` a plain `df.count()` would count too few rows.
PUSHING_IS_SAFE = hasattr(DataSourceReader, "pushLimit")


class DeltaSqlDataSource(DataSource):
    """The source without filter push-down, which stock settings of Spark accept."""

    def __init__(self, options: Any) -> None:
        self._options = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "deltasql"

    def schema(self) -> SparkStruct:
        with _opened(self._options) as (services, entry):
            snapshot = snapshot_at(services, entry, self._options.version, self._options.timestamp)
            _chosen_by(self._options.filter, snapshot.metadata)
            return spark_schema(snapshot)

    def reader(self, schema: SparkStruct) -> TableReader:  # noqa: ARG002
        return TableReader(self._options)

    def writer(self, schema: SparkStruct, overwrite: bool) -> TableWriter:
        return TableWriter(self._options, schema, overwrite)


class PushingDataSource(DeltaSqlDataSource):
    """The source that asks the ledger for the files a filter may match. See `deltasql.spark.register`."""

    def reader(self, schema: SparkStruct) -> PushingReader:  # noqa: ARG002
        return PushingReader(self._options)


class FilePartition(InputPartition):
    def __init__(self, files: Sequence[AddFile]) -> None:
        super().__init__(None)
        self.files = files


class TableReader(DataSourceReader):
    """Reads one version, chosen once: tasks that start later see the same files."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        with _opened(options) as (services, entry):
            snapshot = snapshot_at(services, entry, options.version, options.timestamp)
            check_readable(entry.name, snapshot.protocol, snapshot.metadata)
            self._location = entry.location
            self._metadata = snapshot.metadata
            self._version = snapshot.version
            self._predicates = _chosen_by(options.filter, snapshot.metadata)

    def partitions(self) -> Sequence[InputPartition]:
        with _opened(self._options) as (services, entry):
            return _pack(self._plan(snapshot_at(services, entry, self._version)))

    def _plan(self, snapshot: Snapshot) -> Iterable[AddFile]:
        if not self._predicates:
            yield from snapshot.adds()
            return
        yield from snapshot.planned(all_of(self._predicates))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePartition)
        return read_rows(self._location, self._options.storage, self._metadata, partition.files, self._options.filter)


class PushingReader(TableReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep what helps to choose files. Spark still filters rows: every filter is handed back."""
        schema = parse_schema(self._metadata.schema_string)
        found = (to_predicate(item, schema) for item in filters)
        self._predicates += [predicate for predicate in found if predicate is not None]
        return filters


class FilesWritten(WriterCommitMessage):
    def __init__(self, adds: Sequence[AddFile], rows: int) -> None:
        self.adds = adds
        self.rows = rows


class TableWriter(DataSourceArrowWriter):
    """Writes rows on executors and commits once, beside the driver. A commit that never came leaves only files."""

    def __init__(self, options: SourceOptions, schema: SparkStruct, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        only_read = {"versionAsOf": options.version, "timestampAsOf": options.timestamp, "filter": options.filter}
        for name, value in only_read.items():
            if value is not None:
                raise ConfigError(f"{name} is for reading", hint="leave it out of the write", field=name)
        with _opened(options) as (services, entry):
            snapshot = snapshot_at(services, entry)
            check_writable(entry.name, snapshot.protocol, snapshot.metadata, fresh_row_ids=True)
            if overwrite:
                refuse_append_only(entry, snapshot)
            # Told here, beside the driver, and not by the first task that meets a row.
            enforce(snapshot.metadata, snapshot.protocol, _empty_rows(schema), table=entry.name)
            self._read_version = snapshot.version
            self._task = WriteTask(
                table=entry.name,
                location=entry.location,
                storage=options.storage,
                metadata=snapshot.metadata,
                protocol=snapshot.protocol,
                max_file_bytes=options.max_file_bytes,
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        return FilesWritten(*write_rows(self._task, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, FilesWritten)]
        adds = [add for message in written for add in message.adds]
        rows = sum(message.rows for message in written)
        with _opened(self._options) as (services, entry):
            if self._overwrite:
                snapshot = snapshot_at(services, entry, self._read_version)
                draft = overwrite_of(entry, snapshot, adds, rows, self._options.token)
            else:
                draft = append_of(entry, self._read_version, adds, rows, self._options.token)
            services.commit([draft])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is taken back: whether a commit landed may be unknown here, and a file too many harms nobody."""


@contextmanager
def _opened(options: SourceOptions) -> Generator[tuple[Services, TableEntry]]:
    services = open_services(options.ledger, options.storage)
    try:
        entry = services.reader.table(options.table)
        require_reach(entry)
        yield services, entry
    finally:
        services.close()


def spark_schema(snapshot: Snapshot) -> SparkStruct:
    # A Delta schema string is a Spark schema's JSON.
    return SparkStruct.fromJson(json.loads(snapshot.metadata.schema_string))


def _chosen_by(filter: str | None, metadata: Metadata) -> list[Predicate]:
    return [] if filter is None else [parse(filter, parse_schema(metadata.schema_string))]


def _empty_rows(schema: SparkStruct) -> pa.Table:
    return to_arrow_schema(schema, timezone="UTC").empty_table()


def _pack(files: Iterable[AddFile]) -> list[InputPartition]:
    """Files in groups of about the size one task should take on; one group at least, since Spark wants one."""
    groups: list[list[AddFile]] = [[]]
    filled = 0
    for add in files:
        if groups[-1] and filled + add.size > _TASK_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(add)
        filled += add.size
    return [FilePartition(group) for group in groups]
