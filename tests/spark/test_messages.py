"""Wrong use of `format("deltasql")`: the user reads our own words, with the next step, in what Spark raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_lakes import SparkLake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string()), ("at", pa.timestamp("us", "UTC"))])


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkLake]:
    made = SparkLake(spark, tmp_path_factory.mktemp("messages"))
    with made.lake:
        table = made.create("t", SCHEMA)
        table.append(pa.table({"k": [1], "s": ["a"], "at": [None]}, schema=SCHEMA))
        only_append = made.create("only_append", SCHEMA, **{"delta.appendOnly": "true"})
        assert (table.version, only_append.version) == (1, 0)
        yield made
        # Whatever went wrong, it changed nothing.
        assert (table.version, only_append.version) == (1, 0)


def good(here: SparkLake) -> DataFrame:
    return here.spark.sql("select 2L as k, 'b' as s, timestamp'2024-01-01 00:00:00' as at")


# What is done, the class of the error, its words, and the next step it names.
Case = tuple[Callable[[SparkLake], object], str, str, str]

READS: dict[str, Case] = {
    "unknown option": (
        lambda here: here.read("t", versionasoff="1"),
        *("ConfigError", "the option 'versionasoff' of format deltasql is not known", "known are commitToken, filter,"),
    ),
    "a path": (
        lambda here: here.spark.read.format("deltasql").load("/somewhere"),
        *("ConfigError", "the option 'path' of format deltasql is not known", "a table is named, not a path"),
    ),
    "no ledger option": (
        lambda here: here.spark.read.format("deltasql").option("table", "t").load(),
        *("ConfigError", "needs the option 'ledger'", "add .option("),
    ),
    "no table option": (
        lambda here: here.spark.read.format("deltasql").option("ledger", here.ledger).load(),
        *("ConfigError", "needs the option 'table'", "add .option("),
    ),
    "no ledger there": (
        lambda here: (
            here.spark.read.format("deltasql").option("ledger", "sqlite:////no/l.db").option("table", "t").load()
        ),
        *("ConfigError", "there is no ledger at /no/l.db", "deltasql init --ledger URL"),
    ),
    "not a ledger's URL": (
        lambda here: here.spark.read.format("deltasql").option("ledger", "lake.db").option("table", "t").load(),
        *("ConfigError", "not the URL of a ledger", "sqlite:///lake.db"),
    ),
    "unknown table": (
        lambda here: here.read("nope"),
        *("TableNotFoundError", "there is no table 'nope' in this ledger", "deltasql table list"),
    ),
    "unknown storage option": (
        lambda here: here.read("t", **{"storage.region": "here"}).collect(),
        *("ConfigError", "unknown storage options: region", "remove them"),
    ),
    "version is no number": (
        lambda here: here.read("t", versionAsOf="first"),
        *("ConfigError", "versionAsOf is 'first'", "give a whole number"),
    ),
    "version outside the history": (
        lambda here: here.read("t", versionAsOf="7"),
        *("VersionNotFoundError", "has no version 7", "ask for a version or time inside that range"),
    ),
    "time without a zone": (
        lambda here: here.read("t", timestampAsOf="2024-01-01 00:00:00"),
        *("InvalidInputError", "2024-01-01 00:00:00 is not an instant", "2026-01-31T12:00:00Z"),
    ),
    "time before the first version": (
        lambda here: here.read("t", timestampAsOf="2024-01-01T00:00:00Z"),
        *("VersionNotFoundError", "has no version as of", "ask for a version or time inside that range"),
    ),
    "version and time": (
        lambda here: here.read("t", versionAsOf="1", timestampAsOf="2024-01-01T00:00:00Z"),
        *("ConfigError", "both versionAsOf and timestampAsOf", "give one of them"),
    ),
    "bad filter": (
        lambda here: here.read("t", filter="nope = 1"),
        *("PredicateError", "nope", "k, s, at"),
    ),
}

WRITES: dict[str, Case] = {
    "missing column": (
        lambda here: here.write(good(here).drop("s"), "t"),
        *("SchemaError", "column s is missing from the data", "add it to the data as nulls"),
    ),
    "one column too many": (
        lambda here: here.write(good(here).selectExpr("*", "1 as extra"), "t"),
        *("SchemaError", "column extra is not in the table", "drop it from the data"),
    ),
    "other type": (
        lambda here: here.write(good(here).selectExpr("k", "k as s", "at"), "t"),
        *("SchemaError", "column s is int64, the table wants string", "cast the column to string"),
    ),
    "null where none may be": (
        lambda here: here.write(good(here).selectExpr("if(s = 'b', null, k) as k", "s", "at"), "t"),
        *("SchemaError", "column k has nulls", "fill the nulls or drop those rows"),
    ),
    "a number that does not fit": (
        lambda here: here.write(good(here).selectExpr("cast(1e20 as decimal(38,0)) as k", "s", "at"), "t"),
        *("SchemaError", "column k is decimal128(38, 0), the table wants int64", "cast the column to int64"),
    ),
    "unknown table": (
        lambda here: here.write(good(here), "nope"),
        *("TableNotFoundError", "there is no table 'nope'", "deltasql table list"),
    ),
    "unknown option": (
        lambda here: here.write(good(here), "t", mergeSchema="true"),
        *("ConfigError", "the option 'mergeschema' of format deltasql is not known", "known are commitToken"),
    ),
    "a version to write": (
        lambda here: here.write(good(here), "t", versionAsOf="1"),
        *("ConfigError", "versionAsOf is for reading", "leave it out of the write"),
    ),
    "an empty token": (
        lambda here: here.write(good(here), "t", commitToken=""),
        *("ConfigError", "commitToken is empty", "give text that is this commit's own"),
    ),
    "file size is no number": (
        lambda here: here.write(good(here), "t", maxFileBytes="1 MB"),
        *("ConfigError", "maxFileBytes is '1 MB'", "give a whole number"),
    ),
    "file size of nothing": (
        lambda here: here.write(good(here), "t", maxFileBytes="0"),
        *("ConfigError", "maxFileBytes is 0", "give a number above 0"),
    ),
    "overwriting what is only appended to": (
        lambda here: here.write(good(here), "only_append", mode="overwrite"),
        *("UnsupportedError", "is append-only (delta.appendOnly = true)", "append to it, or use another table"),
    ),
}


@pytest.mark.parametrize(
    "case", [*READS.values(), *WRITES.values()], ids=[*READS, *(f"{name}, writing" for name in WRITES)]
)
def test_the_message_is_ours(here: SparkLake, case: Case) -> None:
    action, kind, words, step = case
    with pytest.raises(PySparkException) as caught:
        action(here)
    message = str(caught.value)
    assert f"deltasql.errors.{kind}: " in message
    ours = message[message.index(f"deltasql.errors.{kind}: ") :].splitlines()[0]
    assert words in ours
    assert step in ours.partition(" → ")[2]


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_modes_that_spark_refuses_by_itself(here: SparkLake, mode: str) -> None:
    with pytest.raises(PySparkException, match='use either the "Append" or "Overwrite" mode'):
        here.write(good(here), "t", mode=mode)
