"""Column mapping: ids and physical names, and what they are for."""

from __future__ import annotations

import pytest

from deltasql.protocol.actions import Metadata
from deltasql.protocol.column_mapping import (
    ID,
    MAX_ID,
    MODE,
    NESTED_IDS,
    PHYSICAL_NAME,
    all_fields,
    assign_missing,
    field_id,
    find_contradiction,
    physical_partitions,
    physical_schema,
    switch_on,
)
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.schema import ArrayType, PrimitiveType, StructField, StructType, parse_schema, schema_string

pytestmark = pytest.mark.unit

INT = PrimitiveType("integer")
SCHEMA = StructType(
    (
        StructField("a", INT, metadata={"comment": "first"}),
        StructField("l", ArrayType(StructType((StructField("x", INT),)))),
        StructField("p", INT),
    )
)
PLAIN = Metadata(id="1", schema_string=schema_string(SCHEMA), partition_columns=("p",), configuration={"k": "v"})


def schema_of(metadata: Metadata) -> StructType:
    return parse_schema(metadata.schema_string)


def test_switched_on_columns_keep_their_names_in_files_and_get_ids() -> None:
    mapped = switch_on(PLAIN)
    found = [(field.name, field_id(field), physical_name(field)) for field in all_fields(schema_of(mapped))]
    assert found == [("a", 1, "a"), ("l", 2, "l"), ("x", 3, "x"), ("p", 4, "p")]
    assert schema_of(mapped).fields[0].metadata["comment"] == "first"
    assert mapped.configuration == {"k": "v", MODE: "name", MAX_ID: "4"}


def renamed(metadata: Metadata, **names: str) -> Metadata:
    schema = schema_of(metadata)
    fields = tuple(StructField(names.get(f.name, f.name), f.type, f.nullable, f.metadata) for f in schema.fields)
    partitions = tuple(names.get(name, name) for name in metadata.partition_columns)
    return Metadata(
        id="1",
        schema_string=schema_string(StructType(fields)),
        partition_columns=partitions,
        configuration=metadata.configuration,
    )


def test_files_know_columns_by_their_first_names() -> None:
    mapped = renamed(switch_on(PLAIN), a="b", p="q")
    assert physical_schema(schema_of(mapped)).names == ("a", "l", "p")
    assert physical_partitions(mapped) == ("p",)
    assert physical_partitions(PLAIN) == ("p",)


def test_new_columns_get_ids_and_names_that_no_column_ever_had() -> None:
    mapped = renamed(switch_on(PLAIN), a="b")
    schema = schema_of(mapped)
    inner = StructType((StructField("x", INT),))
    grown = StructType((*schema.fields[1:], StructField("a", inner)))
    assigned = assign_missing(
        Metadata(id="1", schema_string=schema_string(grown), configuration={**mapped.configuration, MAX_ID: "9"})
    )
    new = schema_of(assigned).field("a")
    assert new is not None
    assert isinstance(new.type, StructType)
    assert [field_id(new), field_id(new.type.fields[0])] == [10, 11]
    assert physical_name(new).startswith("col-")
    assert physical_name(new) != physical_name(new.type.fields[0])
    assert assigned.configuration[MAX_ID] == "11"
    # The others stay, and nothing is done twice.
    assert schema_of(assigned).fields[:2] == schema.fields[1:]
    assert assign_missing(assigned) == assigned


def test_ids_go_on_above_those_of_elements() -> None:
    marks = {ID: 2, PHYSICAL_NAME: "l", NESTED_IDS: {"l.element": 100}}
    schema = StructType((StructField("l", ArrayType(INT), metadata=marks), StructField("new", INT)))
    assigned = assign_missing(Metadata(id="1", schema_string=schema_string(schema), configuration={MODE: "name"}))
    assert field_id(schema_of(assigned).fields[1]) == 101


def marked(**marks: object) -> StructType:
    return StructType((StructField("a", INT, metadata=dict(marks)),))


@pytest.mark.parametrize(
    ("schema", "mode", "why"),
    [
        (marked(**{PHYSICAL_NAME: "b"}), "none", "'a'"),
        (marked(**{PHYSICAL_NAME: "a"}), "name", "'a'"),
        (marked(**{ID: 1}), "id", "'a'"),
        (marked(**{ID: "1", PHYSICAL_NAME: "a"}), "name", "'a'"),
        (marked(), "novel", "novel"),
    ],
)
def test_names_that_contradict_are_found(schema: StructType, mode: str, why: str) -> None:
    assert why in (find_contradiction(schema, {MODE: mode}) or "")


def test_names_that_agree_are_fine() -> None:
    assert find_contradiction(marked(**{PHYSICAL_NAME: "a"}), {}) is None
    assert find_contradiction(schema_of(switch_on(PLAIN)), switch_on(PLAIN).configuration) is None
