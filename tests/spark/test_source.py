"""`format("deltasql")`: what is written comes back, at every version, by every way to read it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltasql.spark
from deltasql.protocol.schema import StructType, parse_schema
from deltasql.protocol.stats import collect_stats
from deltasql.spark.source import DeltaSqlDataSource
from deltasql.storage.locations import open_store
from readers.normal import KEY, difference, normalise
from readers.tables import by_day, every_value, plain, primitives, rows, strings
from readers.values import PRIMITIVES
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    made = SparkLake(spark, tmp_path)
    with made.lake:
        yield made


def same(found: pa.Table | DataFrame, expected: pa.Table) -> bool:
    problem = difference(normalise(found.toArrow() if isinstance(found, DataFrame) else found), normalise(expected))
    assert problem is None, problem
    return True


def keys(found: pa.Table | DataFrame) -> list[int]:
    data = found.toArrow() if isinstance(found, DataFrame) else found
    return sorted(data.column(KEY).to_pylist())


@pytest.mark.parametrize("partitioned", [(), ("day",)], ids=["flat", "partitioned"])
def test_append_and_overwrite(here: SparkLake, partitioned: tuple[str, ...]) -> None:
    table = here.create("t", by_day(0, 0).schema, *partitioned)
    here.put(table, by_day(0, 40), parts=3)
    here.put(table, by_day(40, 8))
    here.put(table, by_day(100, 12), mode="overwrite", parts=2)
    assert table.version == 3
    expected = {1: by_day(0, 40), 2: pa.concat_tables([by_day(0, 40), by_day(40, 8)]), 3: by_day(100, 12)}
    for version, data in expected.items():
        assert same(table.to_arrow(version=version), data)
        assert same(here.read("t", versionAsOf=str(version)), data)
    assert same(here.read("t"), expected[3])
    first, second = table.history()[2], table.history()[0]
    assert first.commit_info["operationParameters"]["mode"] == "Append"
    assert first.commit_info["operationMetrics"]["numOutputRows"] == "40"
    assert second.commit_info["operationParameters"]["mode"] == "Overwrite"
    assert table.leftovers(timedelta(0)) == []


def test_reading_by_time(here: SparkLake) -> None:
    table = here.create("t", plain(0, 0).schema)
    here.put(table, plain(0, 3))
    here.put(table, plain(3, 2))
    instants = {entry.version: datetime.fromtimestamp(entry.timestamp / 1000, UTC) for entry in table.history()}
    before_second = instants[2] - timedelta(milliseconds=1)
    assert keys(here.read("t", timestampAsOf=before_second.isoformat())) == [0, 1, 2]
    assert keys(here.read("t", timestampAsOf=instants[2].isoformat())) == [0, 1, 2, 3, 4]
    assert keys(table.to_spark(here.spark, timestamp=before_second)) == [0, 1, 2]
    assert keys(table.to_spark(here.spark, version=1)) == [0, 1, 2]


def test_a_reader_keeps_to_the_version_it_began_with(here: SparkLake) -> None:
    table = here.create("t", plain(0, 0).schema)
    here.put(table, plain(0, 3))
    begun = here.read("t", versionAsOf=str(table.version))
    here.put(table, plain(10, 3), mode="overwrite")
    assert keys(begun) == [0, 1, 2]


def test_a_token_commits_once_and_leads_to_its_version(here: SparkLake) -> None:
    table = here.create("t", plain(0, 0).schema)
    here.put(table, plain(0, 1))
    for mode in ("append", "overwrite"):
        for _ in range(2):
            here.put(table, plain(10, 2), mode=mode, commitToken=f"one {mode}")
    assert table.version == 3
    assert [table.version_of(f"one {mode}") for mode in ("append", "overwrite", "other")] == [2, 3, None]
    assert keys(table.to_arrow(version=2)) == [0, 10, 11]
    assert keys(table.to_arrow()) == [10, 11]


def test_no_rows(here: SparkLake) -> None:
    table = here.create("t", by_day(0, 0).schema, "day")
    assert keys(here.read("t")) == []
    assert keys(table.to_spark(here.spark)) == []
    here.put(table, by_day(0, 4))
    here.put(table, by_day(0, 0))
    assert (table.version, keys(here.read("t"))) == (2, [0, 1, 2, 3])
    here.put(table, by_day(0, 0), mode="overwrite")
    assert (table.version, keys(here.read("t"))) == (3, [])
    assert table.snapshot().files().num_rows == 0


def test_columns_are_matched_by_name_and_rows_cut_into_files(here: SparkLake) -> None:
    table = here.create("t", plain(0, 0).schema)
    turned = here.frame(table, plain(0, 1_000), parts=1).selectExpr("x", "S as `s`", "k as `K`")
    here.write(turned, "t", maxFileBytes="4000")
    assert same(here.read("t"), plain(0, 1_000))
    assert table.snapshot().files().num_rows > 4


def test_the_bare_source_works_with_stock_settings(spark: SparkSession, here: SparkLake) -> None:
    table = here.create("t", by_day(0, 0).schema, "day")
    fresh = spark.newSession()
    assert fresh.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
    fresh.createDataFrame([(1,)], "k long")  # makes this session the active one, in which Spark looks for the name
    fresh.dataSource.register(DeltaSqlDataSource)
    here.spark = fresh
    here.put(table, by_day(0, 8))
    found = here.read("t")
    assert same(found, by_day(0, 8))
    assert keys(found.filter("day = '2024-01-02' and k > 3")) == [5]


def test_statistics_are_those_of_the_rows(here: SparkLake) -> None:
    """Strings are cut, ends of types kept or left out: all by the rules that the protocol's own tests hold."""
    data = primitives()
    table = here.create("t", data.schema, "boolean")
    here.put(table, data, parts=2)
    snapshot = table.snapshot()
    inside = StructType(tuple(f for f in parse_schema(snapshot.metadata.schema_string).fields if f.name != "boolean"))
    files = list(snapshot.adds())
    assert len(files) >= 3
    for add in files:
        assert add.stats == collect_stats(snapshot.rows(add).drop_columns(["boolean"]), inside)
    assert any("a" * 32 in (add.stats or "") and "a" * 33 not in (add.stats or "") for add in files)


@pytest.mark.parametrize("case", ["strings", "every type", "glob characters", "place"])
def test_spark_reads_files_itself_as_the_ledger_has_them(here: SparkLake, case: str) -> None:
    """Partition values come from the ledger, whatever a path may look like; no row is there twice."""
    if case == "strings":
        data = strings()
        table = here.create("t", data.schema, "p")
    elif case == "every type":
        data = every_value(PRIMITIVES)
        table = here.create("t", data.schema, *PRIMITIVES)
    elif case == "glob characters":
        # Each of these, taken for a pattern, names files of the others too.
        values = ["*", "?", "a*", "ab", "a?", "[ab]", "a", "b", "{a,b}", "\\a", "a\\b", "[", "]", "{", "}", "a b#%41"]
        data = rows(0, len(values), p=(pa.string(), values))
        table = here.create("t", data.schema, "p")
    else:
        data = by_day(0, 8)
        table = here.create("odd.käse & [brot] {#1} *", data.schema, "day")
    here.put(table, data)
    table.append(data.slice(0, 2).set_column(0, KEY, pa.array([-1, -2], pa.int64())))
    assert same(table.to_spark(here.spark, version=1), table.to_arrow(version=1))
    assert same(table.to_spark(here.spark), table.to_arrow())
    assert same(here.read(table.name), table.to_arrow())


def test_a_store_in_memory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """It lives in one process; what an executor put there would be lost, and called written."""
    deltasql.spark.register(spark)
    ledger = f"sqlite:///{tmp_path}/memory.db"
    with deltasql.connect(ledger, root="memory://spark-test") as lake:
        table = lake.create_table("t", plain(0, 0).schema)
        table.append(plain(0, 2))
        reader = spark.read.format("deltasql").option("ledger", ledger).option("table", "t")
        attempts: list[Any] = [
            lambda: reader.load().collect(),
            lambda: table.to_spark(spark),
            lambda: reader.load().write.format("deltasql").option("ledger", ledger).option("table", "t").save(),
        ]
        for attempt in attempts:
            with pytest.raises(Exception, match="in the memory of one process"):
                attempt()
        assert table.version == 1
        # The mirror does its work where the memory is.
        lake.create_table("another", plain(0, 0).schema)
        assert lake.mirror(spark=spark).ok
        assert table.mirror_head().published_version == 1
        assert [meta.key for meta in open_store(table.location).list("_delta_log/")]
