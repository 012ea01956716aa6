"""Jobs that fail: nothing is committed twice or in part, and what they leave behind is known."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.functions import lit, udf

import deltasql
from deltasql import Table
from deltasql.failpoints import arm
from deltasql.ledger.dialects import sqlite
from deltasql.spark.source import DeltaSqlDataSource, FilesWritten, TableWriter
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string())])
BEFORE = pa.table({"k": [-1, -2], "p": ["x", "y"]}, schema=SCHEMA)
# Two tasks at a time: the last one begins when two others have written their files.
TASKS, ROWS = 4, 40
LAST = ROWS - 1


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    made = SparkLake(spark, tmp_path)
    with made.lake:
        yield made


@pytest.fixture
def table(here: SparkLake) -> Table:
    made = here.create("t", SCHEMA, "p")
    here.put(made, BEFORE, mode="overwrite")
    assert made.version == 1
    assert left_over(made) == set()
    return made


def rows_through(spark: SparkSession, action: Callable[[int], int]) -> DataFrame:
    """Rows whose key goes through `action`, on an executor, while they are written."""
    acting = udf(action, "long", useArrow=False)
    return spark.range(0, ROWS, 1, TASKS).select(acting("id").alias("k"), lit("x").alias("p"))


def files(table: Table) -> set[str]:
    folder = Path(unquote(table.location.removeprefix("file://")))
    return {str(file.relative_to(folder)) for file in folder.rglob("*.parquet")}


def left_over(table: Table) -> set[str]:
    return {leftover.path for leftover in table.leftovers(timedelta(0))}


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow().column("k").to_pylist())


def registered(spark: SparkSession, changed: type[TableWriter]) -> str:
    """The name of a source that is ours but for its writer."""

    class Changed(DeltaSqlDataSource):
        @classmethod
        def name(cls) -> str:
            return "deltasql_changed"

        def writer(self, schema: Any, overwrite: bool) -> TableWriter:
            return changed(self._options, schema, overwrite)

    source: type[DataSource] = Changed
    spark.createDataFrame([(1,)], "k long")
    spark.dataSource.register(source)
    return source.name()


class Failing:
    """A write that must fail, and what may be said afterwards."""

    def __init__(self, here: SparkLake, table: Table) -> None:
        self._here = here
        self._table = table
        self._before = files(table)

    def write(self, rows: DataFrame, mode: str = "append", format: str = "deltasql", **options: str) -> str:
        """The message of the failure."""
        writer = rows.write.format(format).option("ledger", self._here.ledger).option("table", "t").options(**options)
        # A process that vanished comes as the bare Java error.
        with pytest.raises((PySparkException, Py4JJavaError)) as caught:
            writer.mode(mode).save()
        return str(caught.value)

    def left_nothing_but_files(self, version: int = 1, rows: list[int] | None = None) -> None:
        assert self._table.version == version
        assert keys(self._table) == sorted([-1, -2] if rows is None else rows)
        referred = {unquote(add.path) for add in self._table.snapshot().adds()}
        written = files(self._table) - self._before - referred
        assert written, "the job failed before it wrote anything, which proves nothing"
        assert left_over(self._table) == written


@pytest.fixture
def failing(here: SparkLake, table: Table) -> Failing:
    return Failing(here, table)


# -- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_failing_task(here: SparkLake, failing: Failing, mode: str) -> None:
    def fail(key: int) -> int:
        if key == LAST:
            raise ValueError("this row is bad")
        return key

    assert "this row is bad" in failing.write(rows_through(here.spark, fail), mode)
    failing.left_nothing_but_files()


def test_a_killed_process_that_makes_the_rows(here: SparkLake, failing: Failing) -> None:
    def die(key: int) -> int:
        if key == LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        return key

    assert "crashed" in failing.write(rows_through(here.spark, die))
    failing.left_nothing_but_files()


def test_a_killed_process_that_writes_the_files(here: SparkLake, failing: Failing) -> None:
    class Dying(TableWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
            batches = list(iterator)
            written = super().write(iter(batches))
            if LAST in batches[0].column("k").to_pylist():
                # Its files are there, and nobody has heard of them.
                os.kill(os.getpid(), signal.SIGKILL)
            return written

    source = registered(here.spark, Dying)
    assert "crashed" in failing.write(rows_through(here.spark, lambda key: key), format=source)
    failing.left_nothing_but_files()


def test_a_task_that_is_tried_again(here: SparkLake, table: Table) -> None:
    """Its first attempt has written its file when it is killed; only the second one's counts."""

    class DyingOnce(TableWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
            batches = list(iterator)
            written = super().write(iter(batches))
            context = TaskContext.get()
            assert context is not None
            if LAST in batches[0].column("k").to_pylist() and context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return written

    before = files(table)
    rows = rows_through(here.spark, lambda key: key)
    source = registered(here.spark, DyingOnce)
    rows.write.format(source).option("ledger", here.ledger).option("table", "t").mode("append").save()
    assert table.version == 2
    assert keys(table) == sorted([-1, -2, *range(ROWS)])
    assert len(files(table) - before) == TASKS + 1
    assert len(left_over(table)) == 1
    assert left_over(table).isdisjoint(unquote(add.path) for add in table.snapshot().adds())


# -- commits ----------------------------------------------------------------------------------------------------------


def meanwhile(ledger: str) -> Callable[[int], int]:
    """Another writer appends, after the job has begun and before it commits."""

    def append(key: int) -> int:
        if key == 0:
            with deltasql.connect(ledger) as lake:
                lake.table("t").append(pa.table({"k": [1_000], "p": ["x"]}))
        return key

    return append


def test_an_overwrite_that_lost_the_race(here: SparkLake, failing: Failing) -> None:
    message = failing.write(rows_through(here.spark, meanwhile(here.ledger)), "overwrite")
    assert "ConflictError" in message
    assert "winning version 2" in message
    assert "read the table again and repeat the operation" in message
    failing.left_nothing_but_files(version=2, rows=[-1, -2, 1_000])


def test_an_append_does_not_mind_another(here: SparkLake, table: Table) -> None:
    here.write(rows_through(here.spark, meanwhile(here.ledger)), "t")
    assert table.version == 3
    assert keys(table) == sorted([-1, -2, 1_000, *range(ROWS)])
    assert left_over(table) == set()


def test_a_ledger_that_is_gone_when_the_job_commits(here: SparkLake, failing: Failing, table: Table) -> None:
    ledger = here.folder / "ledger.db"
    away = here.folder / "elsewhere.db"

    def move(key: int) -> int:
        if key == 0:
            ledger.rename(away)
        return key

    here.lake.close()
    message = failing.write(rows_through(here.spark, move), commitToken="mine")
    assert "ConfigError" in message
    assert f"there is no ledger at {ledger}" in message
    away.rename(ledger)
    failing.left_nothing_but_files()
    # The same again, now that the ledger is back.
    here.write(rows_through(here.spark, lambda key: key), "t", commitToken="mine")
    assert table.version_of("mine") == 2
    assert keys(table) == sorted([-1, -2, *range(ROWS)])


def test_a_ledger_that_is_locked_when_the_job_commits(here: SparkLake, failing: Failing) -> None:
    class Impatient(TableWriter):
        def commit(self, messages: list[Any]) -> None:
            sqlite.LOCK_TIMEOUT_SECONDS = 0.1
            super().commit(messages)

    source = registered(here.spark, Impatient)
    holder = sqlite3.connect(here.folder / "ledger.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        message = failing.write(rows_through(here.spark, lambda key: key), "overwrite", source)
    finally:
        holder.close()
    assert "LedgerBusyError" in message
    assert "another process holds the database; try again" in message
    failing.left_nothing_but_files()


@pytest.mark.parametrize("point", ["before_sql_commit", "after_sql_commit"])
def test_a_commit_whose_answer_never_came(here: SparkLake, failing: Failing, table: Table, point: str) -> None:
    """The caller hears of a failure in both cases. The same job with the same token makes it good, once."""

    class Dying(TableWriter):
        def commit(self, messages: list[Any]) -> None:
            with arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                super().commit(messages)

    source = registered(here.spark, Dying)
    rows = rows_through(here.spark, lambda key: key)
    failing.write(rows, format=source, commitToken="mine")
    landed = point == "after_sql_commit"
    assert table.version_of("mine") == (2 if landed else None)
    if not landed:
        failing.left_nothing_but_files()
    here.write(rows, "t", commitToken="mine")
    assert table.version_of("mine") == table.version == 2
    failing.left_nothing_but_files(version=2, rows=[-1, -2, *range(ROWS)])
