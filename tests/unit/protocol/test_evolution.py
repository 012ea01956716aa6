"""Wider types, how they are recorded, and what appended data adds to a schema."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from deltasql.errors import SchemaError
from deltasql.protocol.arrow import schema_from_arrow
from deltasql.protocol.evolution import TYPE_CHANGES, evolve, named_type, record_type_changes, widens
from deltasql.protocol.schema import StructField, StructType, parse_schema, schema_string

pytestmark = pytest.mark.unit

# All that the protocol allows among these; every other pair is refused.
WHOLE = {"decimal(10,0)", "decimal(12,2)", "decimal(19,0)", "decimal(20,0)", "decimal(38,18)"}
ALLOWED = {
    "byte": {"short", "integer", "long", "double"} | WHOLE,
    "short": {"integer", "long", "double"} | WHOLE,
    "integer": {"long", "double"} | WHOLE,
    "long": {"decimal(20,0)", "decimal(38,18)"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
    "decimal(4,2)": {"decimal(10,3)", "decimal(12,2)", "decimal(38,18)"},
    "decimal(10,0)": WHOLE - {"decimal(10,0)"},
    "decimal(10,3)": {"decimal(38,18)"},
    "decimal(12,2)": {"decimal(38,18)"},
    "decimal(19,0)": {"decimal(20,0)", "decimal(38,18)"},
    "decimal(20,0)": {"decimal(38,18)"},
}
TYPES = (
    *("byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string", "boolean"),
    *("decimal(4,2)", "decimal(10,3)", *sorted(WHOLE)),
)


def test_exactly_the_changes_of_the_protocol_are_allowed() -> None:
    found: dict[str, set[str]] = {}
    for old, new in itertools.product(TYPES, TYPES):
        if widens(named_type(old), named_type(new)):
            found.setdefault(old, set()).add(new)
    assert found == ALLOWED


def struct(text: str) -> StructType:
    return parse_schema('{"type":"struct","fields":[' + text + "]}")


def column(name: str, kind: str) -> str:
    return f'{{"name":"{name}","type":{kind},"nullable":true,"metadata":{{}}}}'


MAPPED = '{"type":"map","keyType":"%s","valueType":{"type":"struct","fields":[%s]},"valueContainsNull":true}'


def test_a_change_is_recorded_at_the_struct_field_it_happened_in() -> None:
    old = struct(column("m", MAPPED % ("float", column("x", '"short"'))) + "," + column("n", '"short"'))
    new = struct(column("m", MAPPED % ("double", column("x", '"long"'))) + "," + column("n", '"short"'))
    recorded = record_type_changes(old, new)
    outer, untouched = recorded.fields
    assert outer.metadata == {TYPE_CHANGES: [{"fromType": "float", "toType": "double", "fieldPath": "key"}]}
    assert untouched.metadata == {}
    assert '"x","type":"long","nullable":true,"metadata":{"delta.typeChanges":[{"fromType":"short"' in schema_string(
        recorded
    )


def test_later_changes_come_after_earlier_ones() -> None:
    steps = [StructType((StructField("n", named_type(name)),)) for name in ("byte", "short", "decimal(10,0)")]
    first = record_type_changes(steps[0], steps[1])
    kept = StructType((StructField("n", steps[2].fields[0].type, metadata=first.fields[0].metadata),))
    second = record_type_changes(first, kept, version=7)
    assert second.fields[0].metadata[TYPE_CHANGES] == [
        {"fromType": "byte", "toType": "short"},
        {"tableVersion": 7, "fromType": "short", "toType": "decimal(10,0)"},
    ]


TABLE = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("name", pa.string()),
        ("s", pa.struct([("x", pa.int64())])),
        ("l", pa.list_(pa.struct([("x", pa.float32())]))),
        ("m", pa.map_(pa.string(), pa.decimal128(4, 2))),
        ("d", pa.date32()),
    ]
)
SCHEMA = schema_from_arrow(TABLE)


def test_new_columns_come_last_and_are_nullable_inside_too() -> None:
    data = pa.schema(
        [
            pa.field("fresh", pa.list_(pa.field("e", pa.struct([pa.field("q", pa.int8(), False)]), False)), False),
            ("s", pa.struct([("y", pa.bool_()), ("x", pa.int64())])),
            ("l", pa.list_(pa.struct([("y", pa.binary())]))),
            ("ID", pa.int32()),
        ]
    )
    merged = evolve(SCHEMA, data)
    wanted = pa.schema(
        [
            *list(TABLE)[:2],
            ("s", pa.struct([("x", pa.int64()), ("y", pa.bool_())])),
            ("l", pa.list_(pa.struct([("x", pa.float32()), ("y", pa.binary())]))),
            *list(TABLE)[4:],
            ("fresh", pa.list_(pa.struct([("q", pa.int8())]))),
        ]
    )
    assert merged == schema_from_arrow(wanted)


def test_what_fits_changes_nothing() -> None:
    data = pa.schema(
        [
            ("name", pa.dictionary(pa.int8(), pa.large_string())),
            ("id", pa.int64()),
            ("d", pa.null()),
            ("l", pa.large_list(pa.struct([("x", pa.float32())]))),
            ("m", pa.map_(pa.large_string(), pa.decimal128(10, 2))),
        ]
    )
    assert evolve(SCHEMA, data) == SCHEMA
    assert evolve(SCHEMA, pa.schema([])) == SCHEMA


def test_with_widening_the_wider_type_of_the_data_is_taken() -> None:
    data = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("x", pa.int8())])),
            ("l", pa.list_(pa.struct([("x", pa.float64())]))),
            ("m", pa.map_(pa.string(), pa.decimal128(10, 3))),
            ("d", pa.timestamp("us")),
        ]
    )
    merged = evolve(SCHEMA, data, widening=True)
    wanted = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("name", pa.string()),
            ("s", pa.struct([("x", pa.int64())])),
            ("l", pa.list_(pa.struct([("x", pa.float64())]))),
            ("m", pa.map_(pa.string(), pa.decimal128(10, 3))),
            ("d", pa.timestamp("us")),
        ]
    )
    assert merged == schema_from_arrow(wanted)


@pytest.mark.parametrize(
    ("data", "widening", "field"),
    [
        ([("id", pa.float64())], True, "id"),
        ([("id", pa.decimal128(12, 0))], True, "id"),
        ([("name", pa.int32())], False, "name"),
        ([("s", pa.struct([("x", pa.string())]))], False, "s.x"),
        ([("l", pa.list_(pa.int32()))], False, "l.element"),
        ([("m", pa.map_(pa.int32(), pa.decimal128(4, 2)))], False, "m.key"),
        ([("m", pa.list_(pa.int32()))], False, "m"),
        ([("s", pa.int32())], False, "s"),
        ([("d", pa.timestamp("us"))], False, "d"),
        ([("fresh", pa.null())], False, "fresh"),
        ([("s", pa.struct([("y", pa.uint8())]))], False, "s.y"),
        ([("n", pa.int8()), ("N", pa.int8())], False, "N"),
    ],
)
def test_everything_else_is_refused_by_name(data: list[tuple[str, pa.DataType]], widening: bool, field: str) -> None:
    with pytest.raises(SchemaError) as caught:
        evolve(SCHEMA, pa.schema(data), widening=widening)
    assert caught.value.field == field
    assert caught.value.hint
