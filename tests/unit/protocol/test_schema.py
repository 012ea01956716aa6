"""Schemas: their JSON, and what no reader could open."""

from __future__ import annotations

import pytest

from deltasql.errors import MalformedLogError, SchemaError
from deltasql.protocol.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    check_schema,
    leaves,
    parse_schema,
    schema_string,
)

pytestmark = pytest.mark.unit

LONG = PrimitiveType("long")

# As Delta Spark writes it.
NESTED = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}},'
    '{"name":"d","type":"decimal(10,2)","nullable":true,"metadata":{"comment":"money"}},'
    '{"name":"st","type":{"type":"struct","fields":[{"name":"u","type":"string","nullable":true,"metadata":{}}]},'
    '"nullable":true,"metadata":{}},'
    '{"name":"ar","type":{"type":"array","elementType":"date","containsNull":true},"nullable":true,"metadata":{}},'
    '{"name":"m","type":{"type":"map","keyType":"string","valueType":"long","valueContainsNull":false},'
    '"nullable":true,"metadata":{}}]}'
)


def test_a_schema_string_is_read_and_written_to_the_letter() -> None:
    schema = parse_schema(NESTED)
    assert schema.fields[0] == StructField("id", LONG, nullable=False)
    assert schema.fields[1].type == DecimalType(10, 2)
    assert schema.fields[1].metadata == {"comment": "money"}
    assert schema.fields[3].type == ArrayType(PrimitiveType("date"))
    assert schema.fields[4].type == MapType(PrimitiveType("string"), LONG, value_contains_null=False)
    assert schema_string(schema) == NESTED


def test_types_not_known_yet_are_carried() -> None:
    text = NESTED.replace('"date"', '"geometry(4326)"')
    assert schema_string(parse_schema(text)) == text


def test_columns_are_found_whatever_their_case() -> None:
    schema = parse_schema(NESTED)
    assert schema.field("ID") is schema.fields[0]
    assert schema.field("nope") is None


def test_leaves_go_into_structs_but_not_into_arrays_and_maps() -> None:
    assert [path for path, _ in leaves(parse_schema(NESTED))] == [("id",), ("d",), ("st", "u"), ("ar",), ("m",)]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"array","elementType":"long","containsNull":true}',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"type":"long","nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"set"},"nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":["a"]}',
    ],
)
def test_a_broken_schema_is_refused_by_name(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert caught.value.field


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(MalformedLogError, match="schemaString"):
        parse_schema("not json")


def test_nesting_has_an_end() -> None:
    text = '"long"'
    for _ in range(200):
        text = f'{{"type":"array","elementType":{text},"containsNull":true}}'
    whole = f'{{"type":"struct","fields":[{{"name":"a","type":{text},"nullable":true,"metadata":{{}}}}]}}'
    with pytest.raises(SchemaError, match="nested more than"):
        parse_schema(whole)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ((), "schema"),
        ((StructField("", LONG),), "schema"),
        ((StructField("a", LONG), StructField("A", LONG)), "A"),
        ((StructField("a b", LONG),), "a b"),
        ((StructField("s", StructType((StructField("x=1", LONG),))),), "s.x=1"),
        ((StructField("d", DecimalType(39, 0)),), "d"),
        ((StructField("d", DecimalType(5, 6)),), "d"),
        ((StructField("g", PrimitiveType("geometry")),), "g"),
        ((StructField("a", ArrayType(DecimalType(0, 0))),), "a.element"),
        ((StructField("m", MapType(LONG, PrimitiveType("nope"))),), "m.value"),
    ],
)
def test_what_no_reader_could_open_is_refused_by_name(fields: tuple[StructField, ...], names: str) -> None:
    with pytest.raises(SchemaError) as caught:
        check_schema(StructType(fields))
    assert caught.value.field == names
    assert caught.value.hint


def test_a_good_schema_passes() -> None:
    check_schema(parse_schema(NESTED))
