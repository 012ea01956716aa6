"""What runs on executors. Imports no SQLAlchemy, no command line, no Spark session: every task pays for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from deltasql.errors import DeltaSqlError
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.engine import Ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.log.target import CheckpointWritten
from deltasql.log.writer import DeltaLog
from deltasql.mirror.checkpoint import write_checkpoint
from deltasql.mirror.publish import Failure, Outcome, find_foreign, publish_versions
from deltasql.ops.constraints import rules_of
from deltasql.ops.files import TARGET_FILE_BYTES, RowWriter, read_file
from deltasql.protocol.actions import AddFile, Metadata, TableProtocol
from deltasql.protocol.predicate import parse
from deltasql.protocol.rows import evaluate
from deltasql.protocol.schema import parse_schema
from deltasql.storage.locations import open_store

# Rows a batch on the way to Spark.
_BATCH_ROWS = 65_536


class WriteTask(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how the rows of one DataFrame partition are written."""

    table: str
    location: str
    storage: Mapping[str, str]
    metadata: Metadata
    protocol: TableProtocol
    max_file_bytes: int | None = None


def write_rows(task: WriteTask, batches: Iterable[pa.RecordBatch]) -> tuple[list[AddFile], int]:
    """Write a partition's rows straight to the store; the files' actions and the number of rows come back."""
    rules = rules_of(task.metadata, task.protocol, table=task.table)
    writer = RowWriter(
        open_store(task.location, task.storage),
        task.metadata,
        file_bytes=task.max_file_bytes or TARGET_FILE_BYTES,
    )
    count = 0
    for batch in batches:
        writer.write(rules.fit(pa.Table.from_batches([batch])))
        count += batch.num_rows
    return writer.close(), count


def read_rows(
    location: str, storage: Mapping[str, str], metadata: Metadata, files: Sequence[AddFile], filter: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows of these files, or those for which `filter` is true."""
    predicate = None if filter is None else parse(filter, parse_schema(metadata.schema_string))
    for add in files:
        rows = read_file(location, storage, metadata, add)
        if predicate is not None:
            rows = rows.filter(evaluate(predicate, rows))
        yield from rows.to_batches(max_chunksize=_BATCH_ROWS)


class PublishTask(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of one table to be put into its log. Whoever runs it reads the ledger and moves no state."""

    ledger: str
    storage: Mapping[str, str]
    table: TableEntry
    published: int
    versions: tuple[int, ...]
    # Set in a table's first round: what stands above the published version is compared before anything is put.
    look: bool


class CheckpointTask(msgspec.Struct, frozen=True, kw_only=True):
    ledger: str
    storage: Mapping[str, str]
    table: TableEntry
    version: int
    now: int


def publish(task: PublishTask) -> Outcome:
    ledger = Ledger(task.ledger)
    try:
        reader, target = SqlTxnLogReader(ledger), DeltaLog(open_store(task.table.location, task.storage))
        if task.look and (foreign := find_foreign(reader, target, task.table, task.published)):
            return Outcome(foreign=foreign)
        return publish_versions(reader, target, task.table, task.versions) if task.versions else Outcome()
    except DeltaSqlError as error:
        return Outcome(failure=Failure.of(error))
    finally:
        ledger.close()


def checkpoint(task: CheckpointTask) -> CheckpointWritten | Failure:
    ledger = Ledger(task.ledger)
    try:
        target = DeltaLog(open_store(task.table.location, task.storage))
        return write_checkpoint(SqlTxnLogReader(ledger), task.table, target, task.version, task.now)
    except DeltaSqlError as error:
        return Failure.of(error)
    finally:
        ledger.close()
