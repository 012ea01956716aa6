"""Tables that Delta Spark writes: what adopting, rebuilding and the canonical encoding are held against.

Each function makes one table at a path. The list is meant to bring up every action, field and spelling that Delta
Spark puts into a commit; the tests count what it really brought up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from readers.values import STRINGS


class Written(NamedTuple):
    """How to write a table, how many versions it comes to, and whether deltasql can write rows to it too."""

    write: Callable[[SparkSession, str], None]
    versions: int
    plain: bool


TABLES: dict[str, Written] = {}


def _table(versions: int, *, plain: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(write: Callable[..., None]) -> Callable[..., None]:
        TABLES[write.__name__] = Written(write, versions, plain)
        return write

    return register


def _numbers(spark: SparkSession, first: int, count: int, *columns: str) -> DataFrame:
    return spark.range(first, first + count).selectExpr("id as k", *(columns or ("concat('row ', id) as s",)))


def _append(data: DataFrame, path: str, **options: Any) -> None:
    data.coalesce(1).write.format("delta").mode("append").options(**options).save(path)


def _overwrite(data: DataFrame, path: str, **options: Any) -> None:
    data.coalesce(1).write.format("delta").mode("overwrite").options(**options).save(path)


def _run(spark: SparkSession, path: str, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement.replace("TABLE_", f"delta.`{path}`"))


# -- tables that deltasql can write to ------------------------------------------------------------------------------


@_table(5, plain=True)
def appends_and_overwrites(spark: SparkSession, path: str) -> None:
    _append(_numbers(spark, 0, 10), path)
    _append(_numbers(spark, 10, 5), path, userMetadata='{"job": "é \\u0001 \\" /"}')
    _append(_numbers(spark, 20, 5), path, txnAppId="stream ☃", txnVersion=7)
    _overwrite(_numbers(spark, 100, 3), path)
    _overwrite(_numbers(spark, 1, 2), path, replaceWhere="k < 101")


@_table(6, plain=True)
def deletes_updates_merges(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint, s string) using delta tblproperties (delta.enableDeletionVectors = false)",
        "insert into TABLE_ select id, concat('a', id) from range(20)",
        "delete from TABLE_ where k % 3 = 0",
        "update TABLE_ set s = null where k > 15",
        "merge into TABLE_ t using (select id as k, 'merged' as s from range(15, 25)) n on t.k = n.k "
        "when matched and n.k < 17 then delete when matched then update set * when not matched then insert *",
        "delete from TABLE_ where k = 1000",
        "truncate table TABLE_",
    )


@_table(3, plain=True)
def partitioned_by_strings(spark: SparkSession, path: str) -> None:
    """All but those with a NUL, which Hadoop does not put into a path."""
    values = [(place, value) for place, value in enumerate([*STRINGS, None, ""]) if "\0" not in (value or "")]
    data = spark.createDataFrame(values, "k bigint, p string").coalesce(1)
    data.where("k % 2 = 0").write.format("delta").partitionBy("p").save(path)
    _append(data.where("k % 2 = 1"), path)
    _run(spark, path, "delete from TABLE_ where p like '%/%'")


@_table(2, plain=True)
def partitioned_by_types(spark: SparkSession, path: str) -> None:
    nan, infinity = float("nan"), float("inf")
    rows = [
        (
            0,
            True,
            127,
            2**63 - 1,
            0.1,
            -0.0,
            Decimal("0.01"),
            date(2024, 2, 29),
            datetime(2024, 3, 10, 2, 30, tzinfo=UTC),
        ),
        (
            1,
            False,
            -128,
            -(2**63),
            nan,
            nan,
            Decimal("10.00"),
            date(1582, 10, 15),
            datetime(1969, 12, 31, 23, tzinfo=UTC),
        ),
        (2, None, None, None, infinity, -infinity, None, None, None),
        (3, True, 0, 0, 1e-5, 1e22, Decimal("0.00"), date(9999, 12, 31), datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
    ]
    schema = "k bigint, b boolean, i tinyint, l bigint, f float, d double, n decimal(9,2), day date, at timestamp"
    data = spark.createDataFrame(rows, schema).selectExpr("*", "cast(at as timestamp_ntz) as ntz")
    data.coalesce(1).write.format("delta").partitionBy(*data.columns[1:]).save(path)
    _append(data.where("k = 3"), path)


@_table(13, plain=True)
def checkpoints(spark: SparkSession, path: str) -> None:
    for step in range(12):
        _append(_numbers(spark, step * 2, 2), path)
    _run(spark, path, "delete from TABLE_ where k < 3")


@_table(4, plain=True)
def schema_evolution(spark: SparkSession, path: str) -> None:
    _append(_numbers(spark, 0, 2), path)
    _append(_numbers(spark, 2, 2, "'x' as s", "id / 2 as d", "named_struct('a', id) as st"), path, mergeSchema=True)
    _run(spark, path, "alter table TABLE_ add columns (late date comment 'the day it''s about' after k)")
    _append(
        _numbers(spark, 4, 2, "date'2024-01-01' as late", "'y' as s", "1.5D as d", "named_struct('a', id) as st"), path
    )


@_table(5, plain=True)
def properties_and_comments(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint comment 'key \"k\" \\\\ / é', s string) using delta comment 'of a table' "
        "tblproperties ('a.b' = 'c \"d\" \\\\ é', delta.checkpointInterval = 3, delta.enableInCommitTimestamps = true)",
        "insert into TABLE_ values (1, 'a')",
        "alter table TABLE_ set tblproperties (note = 'x\\u0001y', delta.logRetentionDuration = 'interval 60 days')",
        "alter table TABLE_ unset tblproperties (note)",
        "comment on table TABLE_ is 'another'",
    )


@_table(4, plain=True)
def timestamps_switched_on_later(spark: SparkSession, path: str) -> None:
    _append(_numbers(spark, 0, 2), path)
    _run(spark, path, "alter table TABLE_ set tblproperties (delta.enableInCommitTimestamps = true)")
    _append(_numbers(spark, 2, 2), path)
    _run(spark, path, "delete from TABLE_ where k = 0")


@_table(3, plain=True)
def created_as_select(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create or replace table TABLE_ using delta partitioned by (p) as "
        "select id as k, id % 3 as p, map('a', id) as m, array(named_struct('x', id)) as l from range(9)",
        "create or replace table TABLE_ using delta partitioned by (p) as "
        "select id as k, id % 2 as p, map('b', id) as m, array(named_struct('x', id)) as l from range(4)",
    )
    data = spark.table(f"delta.`{path}`").where("p = 1").selectExpr("k + 10 as k", "p", "m", "l")
    _overwrite(data, path, partitionOverwriteMode="dynamic")


# -- tables whose log alone deltasql carries ------------------------------------------------------------------------


@_table(5)
def deletion_vectors(spark: SparkSession, path: str) -> None:
    _append(_numbers(spark, 0, 100), path)
    _run(
        spark,
        path,
        "alter table TABLE_ set tblproperties (delta.enableDeletionVectors = true)",
        "delete from TABLE_ where k % 10 = 0",
        "update TABLE_ set s = 'new' where k = 5",
        "reorg table TABLE_ apply (purge)",
    )


@_table(4)
def change_data_feed(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint, p string) using delta partitioned by (p) tblproperties "
        "(delta.enableChangeDataFeed = true, delta.enableDeletionVectors = false)",
        "insert into TABLE_ select id, concat('p ', id % 2) from range(10)",
        "update TABLE_ set k = -k where k > 5",
        "delete from TABLE_ where k = 1",
    )


@_table(6)
def row_tracking_and_clustering(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint, s string) using delta cluster by (k) "
        "tblproperties (delta.enableRowTracking = true)",
        "insert into TABLE_ select id, 'a' from range(10)",
        "insert into TABLE_ select id, 'b' from range(10, 20)",
        "optimize TABLE_",
        "delete from TABLE_ where k < 15",
        "alter table TABLE_ cluster by none",
    )


@_table(6)
def column_mapping_and_checks(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint not null, `odd name` string, d double default 1.5) using delta tblproperties "
        "(delta.columnMapping.mode = 'name', delta.feature.allowColumnDefaults = 'supported')",
        "alter table TABLE_ add constraint positive check (k > 0)",
        "insert into TABLE_ (k, `odd name`) values (1, 'a')",
        "alter table TABLE_ rename column `odd name` to `another = name`",
        "alter table TABLE_ drop column `another = name`",
        "alter table TABLE_ drop constraint positive",
    )


@_table(4)
def generated_and_identity_columns(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint generated always as identity, at timestamp, "
        "day date generated always as (cast(at as date))) using delta partitioned by (day)",
        "insert into TABLE_ (at) values (timestamp'2024-01-01 10:00:00'), (null)",
        "insert into TABLE_ (at) values (timestamp'2024-01-02 10:00:00')",
        "alter table TABLE_ alter column k sync identity",
    )


@_table(4)
def widened_types(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k int, s string) using delta tblproperties (delta.enableTypeWidening = true)",
        "insert into TABLE_ values (1, 'a')",
        "alter table TABLE_ alter column k type bigint",
        "insert into TABLE_ values (5000000000, 'b')",
    )


@_table(6)
def v2_checkpoints(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint) using delta tblproperties "
        "(delta.checkpointPolicy = 'v2', delta.checkpointInterval = 2)",
        *(f"insert into TABLE_ values ({number})" for number in range(5)),
    )


@_table(7, plain=True)
def optimize_restore_vacuum(spark: SparkSession, path: str) -> None:
    for step in range(3):
        _append(_numbers(spark, step * 2, 2), path)
    _run(spark, path, "optimize TABLE_", "restore table TABLE_ to version as of 1")
    spark.conf.set("spark.databricks.delta.vacuum.logging.enabled", "true")
    _run(spark, path, "vacuum TABLE_")
    spark.conf.unset("spark.databricks.delta.vacuum.logging.enabled")


@_table(2)
def shallow_clone(spark: SparkSession, path: str) -> None:
    """The clone's files lie in the other table: their paths are absolute."""
    _append(_numbers(spark, 0, 4), f"{path} source")
    _run(spark, path, f"create table TABLE_ shallow clone delta.`{path} source`", "insert into TABLE_ values (4, 'x')")


@_table(2)
def converted_from_parquet(spark: SparkSession, path: str) -> None:
    _numbers(spark, 0, 4, "id % 2 as p", "'x' as s").write.partitionBy("p").parquet(path)
    _run(spark, path, f"convert to delta parquet.`{path}` partitioned by (p bigint)", "delete from TABLE_ where k = 1")


@_table(2)
def variants(spark: SparkSession, path: str) -> None:
    _run(
        spark,
        path,
        "create table TABLE_ (k bigint, v variant) using delta",
        "insert into TABLE_ select id, parse_json('{\"a\": [1, null]}') from range(3)",
    )
