"""What statistics and partition values say about a predicate: never too much, and where they can, enough."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltasql.protocol.skipping import FileFacts
from predicate_samples import facts_of, outcome

pytestmark = pytest.mark.unit


def stats(low: object, high: object, name: str = "id", nulls: int | None = 0, records: int | None = 10) -> FileFacts:
    """The facts of a file whose JSON says this of one column."""
    body: dict[str, object] = {"minValues": {name: low}, "maxValues": {name: high}}
    if nulls is not None:
        body["nullCount"] = {name: nulls}
    if records is not None:
        body["numRecords"] = records
    return facts_of(json.dumps(body))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 0", "none"),
        ("id = 1", "some"),
        ("id = 5", "some"),
        ("id = 6", "none"),
        ("id <> 6", "all"),
        ("id < 1", "none"),
        ("id < 2", "some"),
        ("id < 6", "all"),
        ("id <= 0", "none"),
        ("id <= 1", "some"),
        ("id <= 5", "all"),
        ("id > 5", "none"),
        ("id > 4", "some"),
        ("id > 0", "all"),
        ("id >= 6", "none"),
        ("id >= 5", "some"),
        ("id >= 1", "all"),
        ("id < 5.5", "all"),
        ("id > 1e300", "none"),
        ("id < 1e300", "all"),
        ("id = 2.5", "none"),
        ("id IN (0, 6)", "none"),
        ("id IN (0, 3)", "some"),
        ("id NOT IN (0, 6)", "all"),
        ("id BETWEEN 6 AND 9", "none"),
        ("id BETWEEN 0 AND 9", "all"),
        ("id NOT BETWEEN 0 AND 9", "none"),
        ("id BETWEEN 3 AND 9", "some"),
        ("id IS NULL", "none"),
        ("id IS NOT NULL", "all"),
        ("id <=> NULL", "none"),
        ("id <=> 9", "none"),
        ("id = NULL", "none"),
        ("NOT id = NULL", "none"),
        ("id < 6 AND id > 0", "all"),
        ("id < 6 AND id > 9", "none"),
        ("id < 3 OR id > 9", "some"),
        ("id < 0 OR id > 9", "none"),
        ("NOT (id < 0 OR id > 9)", "all"),
        ("id > 0 AND NULL", "none"),
        ("id > 0 OR NULL", "all"),
        ("id > 9 OR NULL", "none"),
        ("TRUE", "all"),
        ("FALSE", "none"),
        ("NULL", "none"),
        # Of other columns nothing is known.
        ("x > 1", "some"),
        ("s IS NULL", "some"),
        ("s = 'a' AND id > 9", "none"),
        ("s = 'a' OR id > 0", "all"),
        ("id = st.u", "some"),
    ],
)
def test_bounds_of_a_column(text: str, expected: str) -> None:
    assert outcome(text, stats(1, 5)) == expected


def test_one_value_throughout() -> None:
    assert outcome("id = 3", stats(3, 3)) == "all"
    assert outcome("id <> 3", stats(3, 3)) == "none"
    assert outcome("id IN (1, 3)", stats(3, 3)) == "all"
    assert outcome("id NOT IN (1, 3)", stats(3, 3)) == "none"


@pytest.mark.parametrize(("nulls", "records"), [(2, 10), (None, 10), (0.5, 10), (-1, 10), (True, 10), ("0", 10)])
def test_a_null_is_no_match(nulls: Any, records: int) -> None:
    facts = stats(1, 5, nulls=nulls, records=records)
    assert outcome("id > 0", facts) == "some"
    assert outcome("id > 0 OR NULL", facts) == "some"
    assert outcome("id > 9", facts) == "none"
    assert outcome("id IS NULL", facts) == "some"
    assert outcome("id IS NOT NULL", facts) == "some"
    assert outcome("id > 0 OR id IS NULL", facts) == "some"


def test_all_nulls() -> None:
    facts = facts_of('{"numRecords":3,"nullCount":{"id":3}}')
    assert outcome("id = 1", facts) == "none"
    assert outcome("NOT id = 1", facts) == "none"
    assert outcome("id NOT IN (1, 2)", facts) == "none"
    assert outcome("id IS NULL", facts) == "all"
    assert outcome("id IS NOT NULL", facts) == "none"
    assert outcome("id <=> NULL", facts) == "all"
    # Without the number of rows, or with none, a count of nulls proves little.
    assert outcome("id = 1", facts_of('{"nullCount":{"id":3}}')) == "some"
    assert outcome("id = 1", facts_of('{"numRecords":0,"nullCount":{"id":0}}')) == "some"


@pytest.mark.parametrize(
    ("column", "raw"),
    [
        ("d", "2024-13-01"),
        ("d", 5),
        ("ts", "soon"),
        ("ts", "+12345-01-01T00:00:00.000Z"),
        ("ts", "2024-01-01T00:00:00.000"),
        ("ntz", "2024-01-01T00:00:00.000Z"),
        ("ts", "0001-01-01T00:00:00.000+01:00"),
        ("x", "NaN"),
        ("x", "Infinity"),
        ("dec", "1.5"),
        ("dec", 1e300),
        ("bin", "abc"),
        ("b", 1),
        ("s", 1),
    ],
)
def test_bounds_of_the_wrong_form_say_nothing(column: str, raw: object) -> None:
    literals = {"d": "'1999-01-01'", "ts": "'1999-01-01'", "ntz": "'1999-01-01'", "b": "TRUE", "bin": "X'00'"}
    literal = literals.get(column, "'0'")
    assert outcome(f"{column} = {literal}", stats(raw, raw, column)) == "some"


def test_strings_are_bounds_not_values() -> None:
    cut = stats("a" * 32, "b" * 32 + "\x7f", "s")
    assert outcome(f"s = '{'a' * 32}'", cut) == "some"
    assert outcome(f"s = '{'a' * 40}'", cut) == "some"
    assert outcome(f"s = '{'b' * 40}'", cut) == "some"
    assert outcome("s < 'a'", cut) == "none"
    assert outcome("s >= 'a'", cut) == "all"
    assert outcome("s > 'c'", cut) == "none"
    assert outcome("s = 'é'", cut) == "none"
    # Cut, and nothing put in its place.
    careless = stats("a" * 32, "a" * 32, "s")
    for text in (f"s = '{'a' * 32}'", f"s = '{'a' * 40}'", f"s > '{'a' * 32}'", f"s <> '{'a' * 32}'"):
        assert outcome(text, careless) == "some"
    # An older tie-breaker, which some characters are above.
    old = stats("a", "b" * 32 + "\ufffd", "s")
    assert outcome(f"s = '{'b' * 32}\U0001f600'", old) == "some"
    assert outcome("s < 'c'", old) == "some"
    assert outcome("s < 'a'", old) == "none"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ab%", "all"),
        ("%", "all"),
        ("a%%", "all"),
        ("abc%", "some"),
        ("abe%", "none"),
        ("aa%", "none"),
        ("b%", "none"),
        ("a_c%", "some"),
        ("%z", "some"),
        ("z_", "none"),
        ("Ab%", "none"),
        ("abd%", "some"),
        (r"ab\%%", "none"),
    ],
)
def test_like_uses_its_prefix(pattern: str, expected: str) -> None:
    facts = stats("abc", "abd", "s")
    assert outcome(f"s LIKE '{pattern}'", facts) == expected
    contrary = {"all": "none", "none": "all", "some": "some"}[expected]
    assert outcome(f"s NOT LIKE '{pattern}'", facts) == contrary
    assert outcome(f"s LIKE '{pattern}'", stats("abc", "abd", "s", nulls=1)) == expected.replace("all", "some")


def test_like_with_half_the_bounds() -> None:
    low, high = facts_of('{"minValues":{"s":"m"}}'), facts_of('{"maxValues":{"s":"m"}}')
    assert outcome("s LIKE 'a%'", low) == "none"
    assert outcome("s LIKE 'z%'", low) == "some"
    assert outcome("s LIKE 'z%'", high) == "none"
    assert outcome("s LIKE 'a%'", high) == "some"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts = '2024-01-01 10:00:00.123'", "some"),
        ("ts = '2024-01-01 10:00:00.123999'", "some"),
        ("ts = '2024-01-01 10:00:00.124'", "none"),
        ("ts = '2024-01-01 10:00:00.122999'", "none"),
        ("ts > '2024-01-01 10:00:00.123'", "some"),
        ("ts > '2024-01-01 10:00:00.123998'", "some"),
        ("ts > '2024-01-01 10:00:00.123999'", "none"),
        ("ts < '2024-01-01 10:00:00.123'", "none"),
        ("ts <= '2024-01-01 10:00:00.123'", "some"),
        ("ts >= '2024-01-01 10:00:00.123'", "all"),
        ("ts < '2024-01-01 10:00:00.124'", "all"),
        ("ts >= DATE '2024-01-01'", "all"),
        ("ts < '2024-01-02T00:00:00+23:00'", "none"),
    ],
)
def test_timestamps_are_cut_to_milliseconds(text: str, expected: str) -> None:
    moment = "2024-01-01T10:00:00.123"
    assert outcome(text, stats(f"{moment}Z", f"{moment}Z", "ts")) == expected
    assert outcome(text, stats("2024-01-01T12:00:00.123+02:00", f"{moment}Z", "ts")) == expected
    if "T" not in text:
        assert outcome(text.replace("ts ", "ntz "), stats(moment, moment, "ntz")) == expected


def test_timestamps_before_1970_may_be_cut_either_way() -> None:
    facts = stats("1969-01-01T10:00:00.123Z", "1969-01-01T10:00:00.123Z", "ts")
    assert outcome("ts < '1969-01-01 10:00:00.123'", facts) == "some"
    assert outcome("ts < '1969-01-01 10:00:00.122001'", facts) == "none"
    assert outcome("ts > '1969-01-01 10:00:00.123998'", facts) == "some"


@pytest.mark.parametrize("column", ["x", "f"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A maximum may leave NaN out, and NaN is above everything.
        ("{} > 5", "some"),
        ("{} >= 6", "some"),
        ("NOT {} < 6", "some"),
        ("NOT {} <= 6", "some"),
        ("{} = 'NaN'", "some"),
        ("{} IN (9, 'NaN')", "some"),
        ("{} < 6", "some"),
        ("{} <> 6", "all"),
        ("{} <= 'NaN'", "all"),
        ("{} < 'NaN'", "some"),
        ("{} <> 'NaN'", "some"),
        # What NaN has no part in may be decided.
        ("{} = 6", "none"),
        ("{} IN (0, 6)", "none"),
        ("{} BETWEEN 6 AND 7", "some"),
        ("{} < 1", "none"),
        ("{} <= 0", "none"),
        ("{} > 0", "all"),
        ("{} >= 1", "all"),
        ("{} = 0", "none"),
        ("{} > 'NaN'", "none"),
    ],
)
def test_nan_is_always_possible(column: str, text: str, expected: str) -> None:
    assert outcome(text.format(column), stats(1.0, 5.0, column)) == expected


def test_bounds_past_a_double_say_nothing() -> None:
    assert outcome("x = 0", facts_of('{"minValues":{"x":1e400}}')) == "some"
    assert outcome("f = 0", facts_of('{"minValues":{"f":1e40}}')) == "some"


def test_zeros_are_equal() -> None:
    assert outcome("x = 0", stats(-0.0, -0.0, "x")) == "some"
    assert outcome("x < 0", stats(0.0, 0.0, "x")) == "none"
    assert outcome("x >= 0", stats(-0.0, 1.0, "x")) == "all"
    assert outcome("x = -0.0D", stats(0.0, 1.0, "x")) == "some"


def test_a_float_is_spelled_shorter_than_it_is() -> None:
    # 0.1F is a little more than 0.1, though statistics spell it 0.1.
    facts = stats(0.1, 0.1, "f")
    assert outcome("f = CAST(0.1 AS FLOAT)", facts) == "some"
    assert outcome("f = 0.1", facts) == "none"
    assert outcome("f > 0.1", facts) == "all"


def test_long_decimals_may_have_been_doubles() -> None:
    # This is what a writer that goes through a double leaves of 123456789012345678.91.
    facts = stats(123456789012345680.0, 123456789012345680.0, "dec")
    assert outcome("dec = 123456789012345678.91", facts) == "some"
    assert outcome("dec = 123456789012345000", facts) == "none"
    assert outcome("dec > 123456789012346000", facts) == "none"
    assert outcome("dec < 123456789012346000", facts) == "all"
    # Up to fifteen digits nothing is lost, and the text of the number counts, not a double.
    short = facts_of('{"numRecords":1,"minValues":{"money":0.10},"maxValues":{"money":0.30},"nullCount":{"money":0}}')
    assert outcome("money = 0.31", short) == "none"
    assert outcome("money = 0.3", short) == "some"
    assert outcome("money >= 0.1", short) == "all"
    assert outcome("money <= 0.30", short) == "all"


def test_nested_columns() -> None:
    text = '{"numRecords":2,"minValues":{"st":{"u":1}},"maxValues":{"st":{"u":5}},"nullCount":{"st":{"u":0}}}'
    assert outcome("st.u > 5", facts_of(text)) == "none"
    assert outcome("ST.U < 6", facts_of(text)) == "all"
    assert outcome("st.v = 'a'", facts_of(text)) == "some"
    assert outcome("st IS NULL", facts_of(text)) == "some"


def test_wide_bounds_are_bounds() -> None:
    text = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":5},"nullCount":{"id":1},"tightBounds":false}'
    facts = facts_of(text)
    assert facts.tight_bounds is False
    assert outcome("id > 5", facts) == "none"
    assert outcome("id > 0", facts) == "some"
    assert facts_of("{}").tight_bounds is True
