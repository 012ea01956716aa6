"""Statistics of a file. The texts are those Delta Spark 4.4 wrote for the same rows, unless a test says why not."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.protocol.arrow import schema_from_arrow
from deltasql.protocol.numbers import single
from deltasql.protocol.schema import PrimitiveType, StructField, StructType
from deltasql.protocol.stats import collect_stats, cut_maximum, cut_minimum

pytestmark = pytest.mark.unit

MAX = "\U0010ffff"
UTC_TIME = pa.timestamp("us", "UTC")


def stats(data: pa.Table, **options: Any) -> str:
    return collect_stats(data, schema_from_arrow(data.schema), **options)


def column(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(values, kind)})


def bounds(values: list[Any], kind: pa.DataType) -> tuple[Any, Any]:
    found = json.loads(stats(column(values, kind)))
    return found["minValues"].get("x"), found["maxValues"].get("x")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_integers(kind: pa.DataType) -> None:
    assert (
        stats(column([1, -7, None], kind))
        == '{"numRecords":3,"minValues":{"x":-7},"maxValues":{"x":1},"nullCount":{"x":1}}'
    )


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (pa.float64(), [1e10, -1e-5, 123456.789], "-1.0E-5", "1.0E10"),
        (pa.float64(), [5e-324], "4.9E-324", "4.9E-324"),
        (pa.float64(), [0.0], "0.0", "0.0"),
        (pa.float64(), [-0.0], "-0.0", "-0.0"),
        (pa.float32(), [1.1, 3.4028235e38], "1.1", "3.4028235E38"),
        (pa.decimal128(10, 2), [Decimal("1.5"), Decimal("-1.5")], "-1.50", "1.50"),
        (pa.decimal128(38, 20), [Decimal("1E-20")], "1E-20", "1E-20"),
        (pa.decimal128(38, 10), [Decimal(0)], "0E-10", "0E-10"),
        (pa.decimal128(10, 6), [Decimal("0.000001")], "0.000001", "0.000001"),
        (pa.decimal128(38, 0), [Decimal("9" * 38)], "9" * 38, "9" * 38),
        (pa.string(), ["a", "", None], '""', '"a"'),
        (pa.string(), ['\x01\x1f"\\\n\x7f/é😀\u2028'], *(['"\\u0001\\u001F\\"\\\\\\n\x7f/é😀\u2028"'] * 2)),
        (pa.date32(), [date(2024, 2, 29), date(1, 1, 1)], '"0001-01-01"', '"2024-02-29"'),
        (
            UTC_TIME,
            [datetime(2024, 1, 1, 10, 0, 0, 123999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
            '"1969-12-31T23:59:59.999Z"',
            '"2024-01-01T10:00:00.123Z"',
        ),
        (UTC_TIME, [datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)], *(['"9999-12-31T23:59:59.999Z"'] * 2)),
        (
            pa.timestamp("us"),
            [datetime(1900, 1, 1), datetime(2024, 1, 1, 10, 0, 0, 123999)],  # noqa: DTZ001
            '"1900-01-01T00:00:00.000"',
            '"2024-01-01T10:00:00.123"',
        ),
    ],
)
def test_bounds_are_spelled_as_delta_spark_spells_them(
    kind: pa.DataType, values: list[Any], low: str, high: str
) -> None:
    nulls = values.count(None)
    assert stats(column(values, kind)) == (
        f'{{"numRecords":{len(values)},"minValues":{{"x":{low}}},"maxValues":{{"x":{high}}},"nullCount":{{"x":{nulls}}}}}'
    )


def test_nested_columns() -> None:
    inner = pa.struct([("c", pa.string()), ("d", pa.list_(pa.int64()))])
    kind = pa.struct([("a", pa.int64()), ("b", inner)])
    rows = [{"a": 1, "b": {"c": "x", "d": [1]}}, None, {"a": None, "b": None}]
    data = pa.table({"st": pa.array(rows, kind), "i": [1, None, 5]})
    assert stats(data) == (
        '{"numRecords":3,"minValues":{"st":{"a":1,"b":{"c":"x"}},"i":1},"maxValues":{"st":{"a":1,"b":{"c":"x"}},"i":5},'
        '"nullCount":{"st":{"a":2,"b":{"c":2,"d":2}},"i":1}}'
    )


def test_what_a_null_struct_hides_does_not_count() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 99])], ["a"], mask=pa.array([False, True]))
    assert stats(pa.table({"st": hidden})) == (
        '{"numRecords":2,"minValues":{"st":{"a":1}},"maxValues":{"st":{"a":1}},"nullCount":{"st":{"a":1}}}'
    )


def test_types_without_bounds_have_a_null_count() -> None:
    data = pa.table(
        {
            "b": [True],
            "bi": [b"q"],
            "a": pa.array([[1, None]]),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    assert stats(data) == '{"numRecords":1,"nullCount":{"b":0,"bi":0,"a":0,"m":0}}'
    assert stats(data.append_column("i", [[1]])) == (
        '{"numRecords":1,"minValues":{"i":1},"maxValues":{"i":1},"nullCount":{"b":0,"bi":0,"a":0,"m":0,"i":0}}'
    )


def test_a_column_of_nulls_has_no_bounds() -> None:
    names = {"i": pa.int64(), "s": pa.string(), "f": pa.float64(), "d": pa.date32(), "n": pa.decimal128(5, 1)}
    data = pa.table({name: pa.array([None], kind) for name, kind in names.items()})
    data = data.append_column("st", pa.array([{"a": None}], pa.struct([("a", UTC_TIME)])))
    assert stats(data) == (
        '{"numRecords":1,"minValues":{"st":{}},"maxValues":{"st":{}},'
        '"nullCount":{"i":1,"s":1,"f":1,"d":1,"n":1,"st":{"a":1}}}'
    )


def test_a_file_without_rows() -> None:
    kind = pa.struct([("a", pa.float64())])
    empty = pa.schema([("x", pa.string()), ("st", kind)]).empty_table()
    expected = '{"numRecords":0,"minValues":{"st":{}},"maxValues":{"st":{}},"nullCount":{"x":0,"st":{"a":0}}}'
    assert stats(empty) == expected
    assert stats(pa.table({"x": pa.chunked_array([], pa.string()), "st": pa.chunked_array([], kind)})) == expected


# Delta Spark writes the texts "NaN" and "Infinity" here, which other readers cannot take for numbers, and its bounds
# of -0.0 and 0.0 depend on which came first.
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([math.nan, 1.0, 2.0], None, None),
        ([math.nan], None, None),
        ([math.inf, 1.0], 1.0, None),
        ([-math.inf, 1.0], None, 1.0),
        ([-math.inf, math.inf], None, None),
    ],
)
def test_what_json_cannot_hold_is_left_out(kind: pa.DataType, values: list[float], low: Any, high: Any) -> None:
    assert bounds(values, kind) == (low, high)


@pytest.mark.parametrize("values", [[-0.0, 0.0], [0.0, -0.0], [None, 0.0, -0.0]])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_of_both_signs_are_both_within_the_bounds(kind: pa.DataType, values: list[Any]) -> None:
    low, high = bounds(values, kind)
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


def test_a_zero_bound_keeps_its_own_sign() -> None:
    assert '"minValues":{"x":-1.0},"maxValues":{"x":-0.0}' in stats(column([-1.0, -0.0], pa.float64()))
    assert '"minValues":{"x":0.0},"maxValues":{"x":1.0}' in stats(column([1.0, 0.0], pa.float64()))


def test_years_that_readers_do_not_parse_are_left_out() -> None:
    days = pa.array([0, 4_000_000], pa.int32()).cast(pa.date32())
    assert stats(pa.table({"x": days})) == (
        '{"numRecords":2,"minValues":{"x":"1970-01-01"},"maxValues":{},"nullCount":{"x":0}}'
    )
    moments = pa.array([-(2**62), 0], pa.int64()).cast(UTC_TIME)
    assert stats(pa.table({"x": moments})) == (
        '{"numRecords":2,"minValues":{},"maxValues":{"x":"1970-01-01T00:00:00.000Z"},"nullCount":{"x":0}}'
    )


@pytest.mark.parametrize(
    ("text", "high"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "~", "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32 + MAX),
        ("a" * 32 + "é", "a" * 32 + MAX),
        ("é" * 40, "é" * 32 + MAX),
        # Upper bounds are counted in UTF-16 units, two for each of these.
        ("😀" * 16, "😀" * 16),
        ("😀" * 20, "😀" * 16 + MAX),
        ("a" + "😀" * 20, "a" + "😀" * 16 + MAX),
        ("a" * 32 + MAX * 3, "a" * 32 + MAX * 3),
        ("a" * 32 + MAX * 3 + "b", "a" * 32 + MAX * 3 + "\x7f"),
        ("a" * 32 + MAX * 16 + "b", "a" * 32 + MAX * 16 + "\x7f"),
        ("a" * 32 + MAX * 17 + "b", None),
        ("a" * 31 + MAX * 16 + "b", "a" * 31 + MAX * 16 + "\x7f"),
        ("a" * 31 + MAX * 17 + "b", None),
    ],
)
def test_a_long_maximum_is_cut_as_delta_spark_cuts_it(text: str, high: str | None) -> None:
    assert cut_maximum(text) == high
    assert bounds([text], pa.string())[1] == high


@pytest.mark.parametrize(("text", "low"), [("z" * 100, "z" * 32), ("😀" * 40, "😀" * 32), ("a" * 32, "a" * 32)])
def test_a_long_minimum_is_cut_to_32_characters(text: str, low: str) -> None:
    assert cut_minimum(text) == low
    assert bounds([text], pa.string())[0] == low


WIDE = pa.table({"a": [1], "st": pa.array([{"x": 1, "y": {"q": 2, "r": 3}, "z": 3}]), "b": [5]})


@pytest.mark.parametrize(
    ("indexed", "nulls"),
    [
        (0, None),
        (1, {"a": 0}),
        (3, {"a": 0, "st": {"x": 0, "y": {"q": 0}}}),
        (-1, {"a": 0, "st": {"x": 0, "y": {"q": 0, "r": 0}, "z": 0}, "b": 0}),
        (32, {"a": 0, "st": {"x": 0, "y": {"q": 0, "r": 0}, "z": 0}, "b": 0}),
    ],
)
def test_the_limit_counts_leaves(indexed: int, nulls: Any) -> None:
    assert json.loads(stats(WIDE, indexed=indexed)).get("nullCount") == nulls


def test_nothing_indexed_leaves_the_number_of_rows() -> None:
    assert stats(WIDE, indexed=0) == '{"numRecords":1}'


def test_arrays_and_maps_count_as_one_leaf() -> None:
    data = pa.table({"a": pa.array([[{"u": 1, "v": 2}]]), "b": [5], "c": [6]})
    assert json.loads(stats(data, indexed=2))["nullCount"] == {"a": 0, "b": 0}


def test_chosen_columns_stand_in_the_order_of_the_schema() -> None:
    # As for delta.dataSkippingStatsColumns = 'B, st.Y, st.z'.
    assert stats(WIDE, indexed=1, columns=["B", "`st`.Y", "st.z"]) == (
        '{"numRecords":1,"minValues":{"st":{"y":{"q":2,"r":3},"z":3},"b":5},'
        '"maxValues":{"st":{"y":{"q":2,"r":3},"z":3},"b":5},"nullCount":{"st":{"y":{"q":0,"r":0},"z":0},"b":0}}'
    )
    assert json.loads(stats(pa.table({"Big": [1], "other": [2]}), columns=["big"]))["nullCount"] == {"Big": 0}
    assert stats(WIDE, columns=[]) == '{"numRecords":1}'
    assert stats(WIDE, columns=["s", "st.yy"]) == '{"numRecords":1}'


def test_partition_columns_are_passed_over() -> None:
    schema = StructType(tuple(StructField(name, PrimitiveType("long")) for name in ("p", "a", "b")))
    data = pa.table({"a": [1], "b": [2]})
    assert collect_stats(data, schema, indexed=1) == (
        '{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":0}}'
    )


@pytest.mark.parametrize(("tight", "end"), [(True, ',"tightBounds":true}'), (False, ',"tightBounds":false}')])
def test_tight_bounds_come_last(tight: bool, end: str) -> None:
    assert stats(column([1], pa.int64()), tight=tight) == stats(column([1], pa.int64()))[:-1] + end


# -- every value lies within its bounds ------------------------------------------------------------------------------

READERS: dict[pa.DataType, Any] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.float32(): single,
    pa.decimal128(20, 9): Decimal,
    pa.string(): str.encode,
    pa.date32(): date.fromisoformat,
    UTC_TIME: datetime.fromisoformat,
    pa.timestamp("us"): datetime.fromisoformat,
}
LETTERS = st.sampled_from(["a", "~", "\x7f", "é", "\uffff", "😀", MAX])
COLUMNS = st.one_of(
    st.tuples(st.just(pa.int64()), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)),
    st.tuples(st.just(pa.float64()), st.lists(st.floats(), min_size=1)),
    st.tuples(st.just(pa.float32()), st.lists(st.floats(width=32), min_size=1)),
    st.tuples(st.just(pa.decimal128(20, 9)), st.lists(st.decimals(-(10**10), 10**10, places=9), min_size=1)),
    st.tuples(st.just(pa.string()), st.lists(st.text(LETTERS, max_size=80), min_size=1)),
    st.tuples(st.just(pa.date32()), st.lists(st.dates(), min_size=1)),
    st.tuples(st.just(UTC_TIME), st.lists(st.datetimes(timezones=st.just(UTC)), min_size=1)),
    st.tuples(st.just(pa.timestamp("us")), st.lists(st.datetimes(), min_size=1)),
)


@settings(max_examples=200)
@given(COLUMNS)
def test_bounds_hold_for_every_value(drawn: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = drawn
    found = json.loads(stats(column([*values, None], kind)), parse_float=None if kind == pa.float64() else Decimal)
    low, high = found["minValues"].get("x"), found["maxValues"].get("x")
    read = READERS[kind]
    assert found["nullCount"] == {"x": 1}
    if pa.types.is_floating(kind) and any(math.isnan(value) for value in values):
        assert (low, high) == (None, None)
        return
    # Strings compare as UTF-8.
    comparable = [value.encode() for value in values] if kind == pa.string() else values
    if low is not None:
        assert read(low) <= min(comparable)
    if high is not None and pa.types.is_timestamp(kind):
        # Cut to milliseconds, which readers allow for.
        assert max(values) - read(high) < timedelta(milliseconds=1)
    elif high is not None:
        assert read(high) >= max(comparable)
