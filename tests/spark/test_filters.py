"""Filters: Spark pushes them, the ledger chooses files by them, and no row is lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as sent
from pyspark.sql.functions import lit

import deltasql.spark
from deltasql import Table
from deltasql.spark.options import parse_options
from deltasql.spark.source import FilePartition, PushingReader
from readers.normal import KEY
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark

NAN, INFINITY = float("nan"), float("inf")
# 01:30 in New York, half an hour before its clocks change.
NIGHT = datetime(2024, 3, 10, 6, 30, tzinfo=UTC)

SCHEMA = pa.schema(
    [
        (KEY, pa.int64()),
        ("n", pa.int64()),
        ("small", pa.int8()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("dec", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("bin", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("deep", pa.struct([("x", pa.int64()), ("a.b", pa.string())])),
        ("p", pa.string()),
    ]
)


def row(key: int, n: int, text: str, *, p: str | None, d: float, b: bool) -> dict[str, object]:
    """A row whose values all grow with `n`, but for what is given."""
    return {
        KEY: key,
        "n": n,
        "small": n % 100,
        "d": d,
        "f": d,
        "dec": Decimal(n).scaleb(-2),
        "s": text,
        "b": b,
        "bin": text.encode(),
        "day": date(2024, 1, 1) + timedelta(days=n),
        "at": NIGHT + timedelta(hours=n),
        "local": datetime(2024, 3, 10, 2, 30) + timedelta(hours=n),  # noqa: DTZ001 (an hour that New York does not have)
        "deep": {"x": n, "a.b": text},
        "p": p,
    }


LOW = [
    row(1, 0, "it's", p="it's", d=0.0, b=True),
    row(2, 1, 'a"b', p="it's", d=-0.0, b=True),
    row(3, 2, "a\\b%_", p="it's", d=0.1, b=True),
]
HIGH = [
    row(11, 1_000, "zürich", p="z", d=1e300, b=False),
    row(12, 1_001, "zz", p="z", d=INFINITY, b=False),
    row(13, 1_002, "z%", p="z", d=NAN, b=False),
]
NULLS: list[dict[str, object]] = [{KEY: 21}, {KEY: 22, "deep": {}}]
MIXED = [row(31, 1, "", p="m", d=-INFINITY, b=True), {KEY: 32, "p": "m"}, row(33, 999, "m", p="m", d=NAN, b=False)]

# Those in the first group hold for rows of the file LOW alone, and its statistics or partition say so.
FOR_LOW_ALONE = [
    "p = 'it\\'s' and n = 1",
    "p <=> 'it\\'s'",
    "p in ('it\\'s', 'q\"')",
    "p like 'it%'",
    "p like 'it\\'%' and not p in ('z', 'm')",
    "p > 'h' and p < 'j'",
    "not (p >= 'j') and p <> 'h'",
    "not (p <=> null) and p < 'j'",
]
# Holding for rows of LOW and of what shares its range, told apart by p.
BY_STATISTICS = [
    "n = 2",
    "n <=> 2",
    "n < 1",
    "n <= 0",
    "not (n >= 1)",
    "n in (0, 2)",
    "small = 2",
    "d = 0.1D",
    "f = 0.1F",
    "dec = 0.02",
    "dec < 0.01",
    "s = 'it\\'s'",
    "s = 'a\"b'",
    "s = 'a\\\\b%_'",
    "s like 'a\\\\\\\\b%'",
    "s like 'it%'",
    "startswith(s, 'a\\\\b%_')",
    "s between 'a' and 'j'",
    "day = '2024-01-03'",
    "day < date'2024-01-02'",
    "at = timestamp'2024-03-10 01:30:00'",
    "at < timestamp'2024-03-10 03:30:00'",
    "local = timestamp_ntz'2024-03-10 02:30:00'",
    "local < timestamp_ntz'2024-03-10 03:00:00'",
    "deep.x = 0",
    "deep.`a.b` = 'it\\'s'",
]
OTHERS = [
    "n <> 1",
    "not (n = 1)",
    "n > 1",
    "n is null",
    "n is not null",
    "n <=> null",
    "not (n <=> null)",
    "n in (1, null)",
    "n not in (1, 2)",
    "n not in (1, null)",
    "d = double('NaN')",
    "d <> double('NaN')",
    "d > 1e299",
    "d >= double('Infinity')",
    "d <= double('-Infinity')",
    "d = 0.0D",
    "d = -0.0D",
    "f = float('NaN')",
    "not (d < 5)",
    "b",
    "not b",
    "b = false",
    "bin = X'7A7A'",
    "bin > X'7A'",
    "s like 'z%'",
    "s not like 'z%'",
    "s like 'z\\\\%'",
    "s like '%z'",
    "s like '%\\'%'",
    "s = ''",
    "s > 'm'",
    "p is null",
    "p = ''",
    "p <=> null",
    "p <> 'z'",
    "not (p in ('z', 'm'))",
    "deep is null",
    "deep.x is null",
    "at >= timestamp'2024-03-10 03:00:00'",
    "at = timestamp'2024-03-10 03:30:00'",
    "to_date(at) = '2024-03-10'",
    "n = 1 or s = 'zz'",
    "n + 1 = 2",
    "cast(n as string) = '1'",
    "dec = 0.01 and d < 1 and s >= 'a'",
    "small = 300",
    "1 = 0",
]


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkLake]:
    """In a session of its own, whose time zone is not UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    made = SparkLake(session, tmp_path_factory.mktemp("filters"))
    # The pushing source is there on every Spark; whether it is chosen by itself is another question.
    deltasql.spark.register(session, push_filters=True)
    with made.lake:
        yield made


def filled(here: SparkLake, name: str) -> Table:
    table = here.create(name, SCHEMA, "p")
    for part in (LOW, HIGH, NULLS, MIXED):
        table.append(pa.Table.from_pylist(part, schema=SCHEMA))
    assert table.snapshot().files().num_rows == 4
    return table


@pytest.fixture(scope="module")
def table(here: SparkLake) -> Table:
    return filled(here, "whole")


@pytest.fixture(scope="module")
def torn(here: SparkLake) -> Table:
    """A table all of whose files are gone, but for LOW."""
    table = filled(here, "torn")
    for add in table.snapshot().adds():
        if add.partition_values["p"] != "it's":
            (Path(unquote(table.location.removeprefix("file://"))) / unquote(add.path)).unlink()
    return table


def answers(filtered: dict[str, DataFrame]) -> dict[str, list[int]]:
    """The keys of the rows that each filter leaves, all asked for in one job."""
    asked = [frame.select(lit(place).alias("place"), KEY) for place, frame in enumerate(filtered.values())]
    found = reduce(DataFrame.unionAll, asked).collect()
    return {text: sorted(row[KEY] for row in found if row["place"] == place) for place, text in enumerate(filtered)}


def pushed(here: SparkLake, table: Table, filters: list[str]) -> dict[str, list[int]]:
    """With a DataFrame for each filter, because in some releases of Spark the scans of one share what is pushed."""
    return answers({text: here.read(table.name).filter(text) for text in filters})


def test_the_same_rows_with_and_without_pushing(here: SparkLake, table: Table) -> None:
    filters = [*FOR_LOW_ALONE, *BY_STATISTICS, *OTHERS]
    # Rows that come from no file: there is nothing to push to, and nothing to skip.
    unread, native = here.frame(table, table.to_arrow()), table.to_spark(here.spark)
    expected = answers({text: unread.filter(text) for text in filters})
    for found in (pushed(here, table, filters), answers({text: native.filter(text) for text in filters})):
        assert {text: (found[text], expected[text]) for text in filters if found[text] != expected[text]} == {}
    # A filter for which there are no rows, or that leaves them all, would prove little.
    keys = len(LOW + HIGH + NULLS + MIXED)
    vain = {text for text, rows in expected.items() if not 0 < len(rows) < keys}
    assert vain == {"n not in (1, null)", "small = 300", "1 = 0", "p = ''"}


def test_files_that_cannot_match_are_not_touched(here: SparkLake, torn: Table) -> None:
    """Their files are gone, so that touching one is an error."""
    low = {row[KEY] for row in LOW}
    filters = [*FOR_LOW_ALONE, *(f"p < 'j' and {text}" for text in BY_STATISTICS)]
    for text, found in pushed(here, torn, filters).items():
        assert found, text
        assert set(found) <= low, text
    with pytest.raises(Exception, match="ObjectNotFoundError"):
        here.read("torn").filter("n >= 0").collect()


def test_a_filter_given_as_an_option(here: SparkLake, table: Table, torn: Table) -> None:
    """Files and rows are chosen by it on every Spark. A time without a zone is UTC, as in all our predicates."""
    filters = [text for text in FOR_LOW_ALONE if "like" not in text]
    filters += ["p < 'j' and n = 2", "p < 'j' and at = timestamp'2024-03-10 06:30:00'", "p < 'j' and d <= 0"]
    expected = {text: sorted(table.to_arrow(filter=text).column(KEY).to_pylist()) for text in filters}
    assert all(expected.values())
    assert answers({text: here.read("torn", filter=text) for text in filters}) == expected
    assert answers({text: torn.to_spark(here.spark, filter=text) for text in filters}) == expected
    with pytest.raises(Exception, match="PredicateError") as caught:
        here.read("whole", filter="nn = 1")
    assert "nn" in str(caught.value)


def test_one_frame_filtered_in_several_ways(spark: SparkSession, tmp_path: Path) -> None:
    """A scan must not see another's filters, nor those of a query before it: rows would be missing in silence."""
    here = SparkLake(spark.newSession(), tmp_path)
    with here.lake:
        table = here.create("t", pa.schema([(KEY, pa.int64())]))
        for keys in ([1, 2], [100, 200]):
            table.append(pa.table({KEY: keys}))
        frame = here.read("t")
        low, high = frame.filter("k < 10"), frame.filter("k > 10")
        assert [low.count(), high.count(), frame.count(), low.count()] == [2, 2, 4, 2]
        assert sorted(row[KEY] for row in low.union(high).collect()) == [1, 2, 100, 200]


def test_the_format_may_be_made_known_to_any_session_at_any_time(spark: SparkSession, tmp_path: Path) -> None:
    first, second = spark.newSession(), spark.newSession()
    deltasql.spark.register(first)
    deltasql.spark.register(second)
    deltasql.spark.register(first)
    here = SparkLake(second, tmp_path)
    with here.lake:
        here.create("t", pa.schema([(KEY, pa.int64())])).append(pa.table({KEY: [1]}))
        here.spark = first
        assert here.read("t").count() == 1


NAIVE = datetime(2024, 3, 10, 2, 30)  # noqa: DTZ001 (as Spark hands over a timestamp_ntz)


@pytest.mark.parametrize(
    ("filters", "files"),
    [
        ([], "LHNM"),
        ([sent.EqualTo(("n",), 2)], "LM"),
        ([sent.EqualTo(("n",), None)], ""),
        ([sent.EqualNullSafe(("n",), None)], "NM"),
        ([sent.GreaterThan(("n",), 999)], "H"),
        ([sent.GreaterThanOrEqual(("n",), 999)], "HM"),
        ([sent.LessThan(("n",), 1)], "L"),
        ([sent.LessThanOrEqual(("n",), 0)], "L"),
        ([sent.In(("n",), (0, 1_000))], "LH"),
        ([sent.In(("n",), (1_001, None))], "H"),
        ([sent.In(("n",), ())], "LHNM"),
        ([sent.IsNull(("n",))], "NM"),
        ([sent.IsNotNull(("n",))], "LHM"),
        ([sent.Not(sent.IsNotNull(("n",)))], "NM"),
        ([sent.Not(sent.GreaterThan(("n",), 2))], "LM"),
        ([sent.Not(sent.EqualTo(("p",), "z"))], "LM"),
        ([sent.Not(sent.EqualNullSafe(("p",), "z"))], "LNM"),
        ([sent.EqualTo(("p",), "it's")], "L"),
        ([sent.StringStartsWith(("s",), "z")], "H"),
        ([sent.StringStartsWith(("s",), "z%")], "H"),
        ([sent.StringStartsWith(("s",), "a\\b%_")], "LM"),
        ([sent.Not(sent.StringStartsWith(("p",), "it'"))], "HM"),
        ([sent.EqualTo(("dec",), Decimal("10.00"))], "H"),
        ([sent.EqualTo(("day",), date(2024, 1, 1))], "L"),
        ([sent.LessThan(("at",), NIGHT + timedelta(hours=1))], "L"),
        ([sent.EqualTo(("local",), NAIVE)], "L"),
        ([sent.LessThan(("deep", "x"), 1)], "L"),
        ([sent.EqualTo(("deep", "a.b"), "zz")], "H"),
        ([sent.GreaterThan(("n",), 5), sent.LessThan(("s",), "n")], "M"),
        # Not used, so that everything is read: what says nothing about files, and what is not known here.
        ([sent.StringEndsWith(("s",), "z"), sent.StringContains(("s",), "z")], "LHNM"),
        ([sent.EqualTo(("no such column",), 1)], "LHNM"),
        ([sent.EqualTo(("n",), "text")], "LHNM"),
        ([sent.EqualTo(("at",), timedelta(1))], "LHNM"),
    ],
    ids=str,
)
def test_which_files_are_planned(here: SparkLake, table: Table, filters: list[sent.Filter], files: str) -> None:
    reader = PushingReader(parse_options({"ledger": here.ledger, "table": table.name}))
    # Spark filters rows itself, whatever was used: each comes back.
    assert list(reader.pushFilters(filters)) == filters
    [group] = reader.partitions()
    assert isinstance(group, FilePartition)
    letters = {"it's": "L", "z": "H", None: "N", "m": "M"}
    assert "".join(letters[add.partition_values["p"]] for add in group.files) == files
