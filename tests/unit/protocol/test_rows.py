"""Predicates over rows: three-valued logic, Spark's order of values, nested columns."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import SchemaError
from deltasql.protocol.arrow import schema_from_arrow
from deltasql.protocol.like import like_matches
from deltasql.protocol.predicate import parse
from deltasql.protocol.rows import evaluate

pytestmark = pytest.mark.unit

NAN, INF = math.nan, math.inf


def check(values: list[Any], kind: pa.DataType, text: str) -> list[bool | None]:
    """Evaluate a predicate over one column `c`."""
    return rows(pa.table({"c": pa.array(values, kind)}), text)


def rows(table: pa.Table, text: str) -> list[bool | None]:
    result = evaluate(parse(text, schema_from_arrow(table.schema)), table)
    assert result.type == pa.bool_()
    return result.to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = 1", [True, False, None]),
        ("c <> 1", [False, True, None]),
        ("c <=> 1", [True, False, False]),
        ("NOT c <=> 1", [False, True, True]),
        ("c <=> NULL", [False, False, True]),
        ("c = NULL", [None, None, None]),
        ("c IS NULL", [False, False, True]),
        ("c IS NOT NULL", [True, True, False]),
        ("c IN (1, 3)", [True, False, None]),
        ("c NOT IN (1, 3)", [False, True, None]),
        ("c IN (1, NULL)", [True, None, None]),
        ("c NOT IN (1, NULL)", [False, None, None]),
        ("c BETWEEN 2 AND 3", [False, True, None]),
        ("c NOT BETWEEN 2 AND 3", [True, False, None]),
        ("c = 1 OR TRUE", [True, True, True]),
        ("c = 1 OR NULL", [True, None, None]),
        ("c = 1 AND FALSE", [False, False, False]),
        ("c = 1 AND NULL", [None, False, None]),
        ("TRUE", [True, True, True]),
        ("NULL", [None, None, None]),
        ("NOT NULL", [None, None, None]),
        ("NULL AND FALSE", [False, False, False]),
        ("c = c", [True, True, None]),
        ("c <=> c", [True, True, True]),
        ("1 < c", [False, True, None]),
        ("c > 1.5", [False, True, None]),
        ("c >= 1.5", [False, True, None]),
        ("c < 1.5", [True, False, None]),
        ("c = 1.5", [False, False, None]),
        ("c < 1e300", [True, True, None]),
        ("c > 99999999999999999999", [False, False, None]),
    ],
)
def test_three_valued_logic(text: str, expected: list[bool | None]) -> None:
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert check([1, 2, None], kind, text) == expected


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = 'NaN'", [False, False, False, True, None]),
        ("c <> 'NaN'", [True, True, True, False, None]),
        ("c < 'NaN'", [True, True, True, False, None]),
        ("c <= 'NaN'", [True, True, True, True, None]),
        ("c > 'NaN'", [False, False, False, False, None]),
        ("c >= 'NaN'", [False, False, False, True, None]),
        ("c > 1", [False, False, True, True, None]),
        ("c >= 0", [True, True, True, True, None]),
        ("c < 1", [True, True, False, False, None]),
        ("NOT c < 1", [False, False, True, True, None]),
        ("c > 'Infinity'", [False, False, False, True, None]),
        ("c = 0", [True, True, False, False, None]),
        ("c = -0.0D", [True, True, False, False, None]),
        ("c < 0", [False, False, False, False, None]),
        ("c IN (0, 'NaN')", [True, True, False, True, None]),
        ("c IN (-0.0D, 5)", [True, True, False, False, None]),
        ("c = c", [True, True, True, True, None]),
        ("c < c", [False, False, False, False, None]),
        ("c >= c", [True, True, True, True, None]),
    ],
)
def test_doubles_have_sparks_order(kind: pa.DataType, text: str, expected: list[bool | None]) -> None:
    assert check([0.0, -0.0, INF, NAN, None], kind, text) == expected


def test_a_float_is_widened_and_a_literal_is_not_narrowed() -> None:
    assert check([0.1], pa.float64(), "c = 0.1") == [True]
    assert check([0.1], pa.float32(), "c = 0.1") == [False]
    assert check([0.1], pa.float32(), "c > 0.1") == [True]
    assert check([0.1], pa.float32(), "c = CAST(0.1 AS FLOAT)") == [True]


def test_whole_numbers_are_not_compared_as_doubles() -> None:
    values = [2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    assert check(values, pa.int64(), "c = 9007199254740993") == [False, True, False, False]
    assert check(values, pa.int64(), "c < 9223372036854775807") == [True, True, False, True]
    assert check(values, pa.int64(), "c >= 9223372036854775807.5") == [False, False, False, False]


def test_decimals_are_exact() -> None:
    kind = pa.decimal128(38, 2)
    values = [Decimal("0.10"), Decimal("1.50"), Decimal("123456789012345678901234567890123456.78"), None]
    assert check(values, kind, "c = 0.1") == [True, False, False, None]
    assert check(values, kind, "c = 0.1D") == [True, False, False, None]
    assert check(values, kind, "c IN (1.5, 0.100)") == [True, True, False, None]
    assert check(values, kind, "c > 1.4999") == [False, True, True, None]
    assert check(values, kind, "c = 123456789012345678901234567890123456.78") == [False, False, True, None]
    assert check(values, kind, "c < 123456789012345678901234567890123456.7") == [True, True, False, None]
    assert check(values, kind, "c < 1e300") == [True, True, True, None]


def test_strings_and_binary_compare_by_bytes() -> None:
    texts = ["", "a", "B", "é", "\uffff", "\U0001f600", None]
    assert check(texts, pa.string(), "c < 'a'") == [True, False, True, False, False, False, None]
    assert check(texts, pa.string(), "c >= '\uffff'") == [False, False, False, False, True, True, None]
    assert check(texts, pa.string(), "c IN ('B', 'é')") == [False, False, True, True, False, False, None]
    assert check([b"", b"\x7f", b"\x80", None], pa.binary(), "c > X'7F'") == [False, False, True, None]
    assert check([b"", b"\x80", None], pa.binary(), "c IN (X'80', X'81')") == [False, True, None]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a%", [False, True, True, True, True, False, None]),
        ("%", [True, True, True, True, True, True, None]),
        ("a_b", [False, False, True, True, True, False, None]),
        (r"a\_b", [False, False, False, True, False, False, None]),
        ("%b", [False, False, True, True, True, False, None]),
        ("_", [False, True, False, False, False, True, None]),
        ("_%_", [False, False, True, True, True, False, None]),
        (r"%\%%", [False, False, True, False, False, False, None]),
        ("", [True, False, False, False, False, False, None]),
    ],
)
def test_like(pattern: str, expected: list[bool | None]) -> None:
    values = ["", "a", "a%b", "a_b", "a\nb", "\U0001f600", None]
    assert check(values, pa.string(), f"c LIKE '{pattern}'") == expected
    contrary = [None if found is None else not found for found in expected]
    assert check(values, pa.string(), f"c NOT LIKE '{pattern}'") == contrary


@given(
    st.text("ab%_\\.*\n", max_size=6),
    st.lists(st.one_of(st.sampled_from(["%", "_", r"\%", r"\_", r"\\"]), st.sampled_from("ab.*\n")), max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_both_matchers_of_like_agree(text: str, parts: list[str]) -> None:
    pattern = "".join(parts)
    spelled = pattern.replace("\\", "\\\\")
    assert check([text], pa.string(), f"c LIKE '{spelled}'") == [like_matches(pattern, text)]


def test_like_finds_a_place_for_every_piece() -> None:
    assert check(["bb", "b", "abbc", "bcb"], pa.string(), "c LIKE '%b%b%'") == [True, False, True, True]
    for text, pattern, expected in [("bb", "%b%b", True), ("b", "%b%b", False), ("abcb", "a%b%b", True)]:
        assert like_matches(pattern, text) is expected
    # Backtracking over all places for all pieces would never end.
    assert like_matches("%a" * 30 + "b", "a" * 3000) is False


def test_dates_and_times() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2), date(1969, 12, 31), None]
    assert check(days, pa.date32(), "c <= '2024-01-01'") == [True, False, True, None]
    assert check(days, pa.date32(), "c < TIMESTAMP '2024-01-01 00:00:01'") == [True, False, True, None]
    assert check(days, pa.date32(), "c = TIMESTAMP '2024-01-01 00:00:01'") == [False, False, False, None]
    instants = [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]
    zoned = pa.timestamp("us", "UTC")
    assert check(instants, zoned, "c = '2024-01-01'") == [True, False, None]
    assert check(instants, zoned, "c > DATE '2024-01-01'") == [False, True, None]
    assert check(instants, zoned, "c = '2024-01-01T01:00:00+01:00'") == [True, False, None]
    assert check(instants, zoned, "c IN ('2024-01-01', '2024-01-02')") == [True, False, None]
    naive = [instant and instant.replace(tzinfo=None) for instant in instants]
    assert check(naive, pa.timestamp("us"), "c <= '2024-01-01 00:00:00'") == [True, False, None]
    assert check(naive, pa.timestamp("us"), "c IN ('2024-01-01', '2024-01-02')") == [True, False, None]


def test_booleans() -> None:
    assert check([True, False, None], pa.bool_(), "c") == [True, False, None]
    assert check([True, False, None], pa.bool_(), "c < TRUE") == [False, True, None]
    assert check([True, False, None], pa.bool_(), "c IN (TRUE, FALSE)") == [True, True, None]


def test_a_field_of_a_null_struct_is_null() -> None:
    inner = pa.struct([("v", pa.string()), ("w", pa.int64())])
    values = [{"u": 1, "in": {"v": "a", "w": 1}}, {"u": None, "in": None}, None, {"u": 2, "in": {"v": None, "w": 2}}]
    table = pa.table({"st": pa.array(values, pa.struct([("u", pa.int64()), ("in", inner)]))})
    assert rows(table, "st.u >= 1") == [True, None, None, True]
    assert rows(table, "st.u IS NULL") == [False, True, True, False]
    assert rows(table, "st.`in`.v = 'a'") == [True, None, None, None]
    assert rows(table, "st.`in`.w = st.u") == [True, None, None, True]
    assert rows(table, "st IS NULL") == [False, False, True, False]
    # What a null struct hides must not show.
    hidden = pa.StructArray.from_arrays([pa.array([5, 6])], ["u"], mask=pa.array([False, True]))
    assert rows(pa.table({"st": hidden}), "st.u > 0") == [True, None]


def test_columns_against_columns() -> None:
    table = pa.table(
        {
            "i": pa.array([1, 2, None, 2**62 + 1], pa.int64()),
            "tiny": pa.array([1, 1, 1, 1], pa.int8()),
            "dec": pa.array([Decimal("1.0"), Decimal("2.5"), None, Decimal(2**62 + 1)], pa.decimal128(38, 18)),
            "big": pa.array([Decimal(1), Decimal(10**37), Decimal(3), Decimal(2**62 + 1)], pa.decimal128(38, 0)),
            "x": pa.array([1.0, NAN, 1.0, float(2**62)], pa.float64()),
            "f": pa.array([NAN, NAN, 1.0, 1.0], pa.float32()),
            "d": pa.array([date(2024, 1, 1)] * 4),
            "ts": pa.array([datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(4)], pa.timestamp("us", "UTC")),
            "ntz": pa.array([datetime(2024, 1, 1)] * 4, pa.timestamp("us")),  # noqa: DTZ001
        }
    )
    assert rows(table, "i > tiny") == [False, True, None, True]
    assert rows(table, "i = dec") == [True, False, None, True]
    assert rows(table, "dec = big") == [True, False, None, True]
    assert rows(table, "i = x") == [True, False, None, True]
    assert rows(table, "x < f") == [True, False, False, False]
    assert rows(table, "x = f") == [False, True, True, False]
    assert rows(table, "d = ts") == [True, False, False, False]
    assert rows(table, "ntz < ts") == [False, True, True, True]
    assert rows(table, "i <=> dec") == [True, False, True, True]


def test_other_arrow_types_of_the_same_values() -> None:
    schema = schema_from_arrow(pa.schema({"s": pa.string(), "i": pa.int64(), "ts": pa.timestamp("us", "UTC")}))
    table = pa.table(
        {
            "s": pa.array(["a", "b", None]).dictionary_encode(),
            "i": pa.array([1, 2, None], pa.int32()),
            "ts": pa.array([1_001, 2_000, None], pa.timestamp("ns", "UTC")),
        }
    )
    for text in ("s = 'a'", "s IN ('a', 'z')", "s LIKE 'a%'", "i = 1", "i IN (1, 4)", "i < 3000000000 AND i < 2"):
        assert evaluate(parse(text, schema), table).to_pylist() == [True, False, None], text
    # Spark's timestamps end at the microsecond.
    at = parse("ts = '1970-01-01 00:00:00.000001'", schema)
    assert evaluate(at, table).to_pylist() == [True, False, None]


def test_chunks_and_no_rows() -> None:
    table = pa.table({"c": pa.chunked_array([[1, 2], [], [3, None]])})
    assert rows(table, "c > 1 AND (c IN (2, 9) OR TRUE)") == [False, True, True, None]
    for text in ("c = 1", "c IN (1, 2)", "c IS NULL", "TRUE", "NULL", "c = 1 OR NULL"):
        assert rows(table.slice(0, 0), text) == []


def test_rows_without_the_column_are_refused() -> None:
    table = pa.table({"c": [1]})
    with pytest.raises(SchemaError) as caught:
        evaluate(parse("c = 1", schema_from_arrow(table.schema)), table.rename_columns(["other"]))
    assert caught.value.field == "c"
    assert caught.value.hint
