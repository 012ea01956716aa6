"""Facts of a file: typed partition values, which decide, and statistics from whatever text an action holds."""

from __future__ import annotations

import pytest

from deltasql.protocol.actions import AddFile
from deltasql.protocol.predicate import parse
from deltasql.protocol.schema import DataType, PrimitiveType, StructField, StructType
from deltasql.protocol.skipping import facts_from, may_match
from predicate_samples import facts_of, outcome

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p = 'eu'", "all"),
        ("p <> 'eu'", "none"),
        ("p > 'ea' AND p < 'ez'", "all"),
        ("p LIKE 'e%'", "all"),
        ("p LIKE '%u'", "all"),
        ("p LIKE '_'", "none"),
        ("p IN ('us', 'eu')", "all"),
        ("p NOT IN ('us', 'eu')", "none"),
        ("p IS NULL", "none"),
        ("day = '2024-01-31'", "all"),
        ("day < TIMESTAMP '2024-01-31 12:00:00'", "all"),
        ("day >= '2024-02-01'", "none"),
        ("day < at", "all"),
        ("day = at", "none"),
        ("w IS NULL", "all"),
        ("w > 1", "none"),
        ("NOT w > 1", "none"),
        ("w <=> NULL", "all"),
        ("at = '2024-01-31 10:00:00.000001'", "all"),
        ("at > '2024-01-31 10:00:00.000001'", "none"),
        ("p = 'eu' AND id = 1", "some"),
        ("p = 'us' AND id = 1", "none"),
        ("p = 'eu' OR id = 1", "all"),
    ],
)
def test_partition_values_decide(text: str, expected: str) -> None:
    values = {"p": "eu", "day": "2024-01-31", "w": None, "at": "2024-01-31T10:00:00.000001Z"}
    assert outcome(text, facts_of(None, values)) == expected


def test_partition_values_of_floats() -> None:
    assert outcome("w = 'NaN'", facts_of(None, {"w": "NaN"})) == "all"
    assert outcome("w > 1e300", facts_of(None, {"w": "NaN"})) == "all"
    assert outcome("w < 1", facts_of(None, {"w": "NaN"})) == "none"
    assert outcome("w = w", facts_of(None, {"w": "NaN"})) == "all"
    assert outcome("w = 0", facts_of(None, {"w": "-0.0"})) == "all"
    assert outcome("w = 0.1", facts_of(None, {"w": "0.1"})) == "none"
    assert outcome("w = CAST(0.1 AS FLOAT)", facts_of(None, {"w": "0.1"})) == "all"


def test_partition_values_that_cannot_be_read_are_not_known() -> None:
    for values in ({"day": "yesterday"}, {}, {"DAY": "2024-01-31"}):
        assert outcome("day = '2024-01-31'", facts_of(None, values)) == "some"
        assert outcome("day IS NULL", facts_of(None, values)) == "some"
    assert outcome("p IS NULL", facts_of(None, {"p": ""})) == "all"


def test_mapped_columns_are_found_by_their_physical_names() -> None:
    def mapped(name: str, physical: str, kind: DataType) -> StructField:
        return StructField(name, kind, True, {"delta.columnMapping.physicalName": physical})

    long = PrimitiveType("long")
    schema = StructType(
        (
            mapped("a", "b", long),
            mapped("b", "a", long),
            mapped("st", "c", StructType((mapped("u", "d", long),))),
            mapped("p", "e", PrimitiveType("string")),
        )
    )
    add = AddFile(
        path="f",
        size=1,
        modification_time=1,
        data_change=True,
        partition_values={"e": "x", "p": "y"},
        stats='{"minValues":{"a":1,"b":10,"c":{"d":100}},"maxValues":{"a":2,"b":20,"c":{"d":200}}}',
    )
    facts = facts_from(add, schema, ["P"])
    for text in ("a = 1", "b = 10", "st.u = 10", "p = 'y'"):
        assert not may_match(parse(text, schema), facts), text
    assert may_match(parse("a = 10 AND b = 1 AND st.u = 100 AND p = 'x'", schema), facts)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "[]",
        "7",
        "{",
        '{"numRecords":',
        '{"minValues":{"x":NaN}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"numRecords":1' + "0" * 5000 + "}",
        '{"minValues":[1],"maxValues":5,"nullCount":"none","numRecords":"many"}',
        '{"minValues":{"id":"1"},"maxValues":{"id":"5"}}',
        '{"minValues":{"id":{"deep":1}},"maxValues":{"id":[5]}}',
        '{"minValues":{"id":true},"maxValues":{"id":false}}',
        '{"minValues":{"id":1.0},"maxValues":{"id":5e0}}',
        '{"minValues":{"id":9},"maxValues":{"id":7}}',
        '{"minValues":{"id":null},"maxValues":{"id":null}}',
        '{"minValues":{"ID":100},"maxValues":{"ID":200}}',
        "\ud800",
    ],
)
def test_statistics_that_make_no_sense_say_nothing(text: str | None) -> None:
    assert outcome("id = 6", facts_of(text)) == "some"
    assert outcome("id > 0 OR st.u > 0", facts_of(text)) == "some"
