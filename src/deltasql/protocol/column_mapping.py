"""Column mapping: the names and numbers under which files know the columns of a table, whatever these are called.

A mapped table gives every column, nested ones too, a physical name and an id that never change. Files, partition
values and statistics use the physical name; only the schema knows the name that people see. So a column can be renamed
or dropped without a file being touched. In the mode `name` files are read by physical names, in the mode `id` by ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from deltasql.protocol.actions import Metadata
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_string,
)

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"

MODES = ("none", "name", "id")


def mapping_mode(configuration: Mapping[str, str]) -> str:
    return configuration.get(MODE, "none").lower()


def is_mapped(configuration: Mapping[str, str]) -> bool:
    return mapping_mode(configuration) != "none"


def field_id(field: StructField) -> int | None:
    found = field.metadata.get(ID)
    return found if type(found) is int else None


def physical_schema(schema: StructType) -> StructType:
    """The schema by physical names."""
    return map_fields(schema, lambda field: msgspec.structs.replace(field, name=physical_name(field)))


def physical_partitions(metadata: Metadata) -> tuple[str, ...]:
    """The keys of `partitionValues`, in the order of the partition columns."""
    if not is_mapped(metadata.configuration):
        return tuple(metadata.partition_columns)
    schema = parse_schema(metadata.schema_string)
    fields = (schema.field(name) for name in metadata.partition_columns)
    return tuple(physical_name(field) for field in fields if field is not None)


def switch_on(metadata: Metadata) -> Metadata:
    """The table with its columns mapped: files that exist know them by their present names, so these stay."""

    def named(field: StructField) -> StructField:
        return _marked(field, {PHYSICAL_NAME: field.name})

    schema = map_fields(parse_schema(metadata.schema_string), named)
    switched = msgspec.structs.replace(
        metadata,
        schema_string=schema_string(schema),
        configuration={**metadata.configuration, MODE: "name"},
    )
    return assign_missing(switched)


def assign_missing(metadata: Metadata) -> Metadata:
    """Give columns that are new to a mapped table their ids and physical names, which no column ever had before."""
    schema = parse_schema(metadata.schema_string)
    highest = max([int(metadata.configuration.get(MAX_ID, "0")), *_ids(schema)])

    def assigned(field: StructField) -> StructField:
        nonlocal highest
        marks: dict[str, Any] = {}
        if field_id(field) is None:
            highest += 1
            marks[ID] = highest
        if PHYSICAL_NAME not in field.metadata:
            marks[PHYSICAL_NAME] = f"col-{uuid.uuid4()}"
        return _marked(field, marks)

    schema = map_fields(schema, assigned)
    return msgspec.structs.replace(
        metadata,
        schema_string=schema_string(schema),
        configuration={**metadata.configuration, MAX_ID: str(highest)},
    )


def find_contradiction(schema: StructType, configuration: Mapping[str, str]) -> str | None:
    """Why the columns' names in files cannot be told, or None."""
    mode = mapping_mode(configuration)
    if mode not in MODES:
        return f"has the unknown column mapping mode {mode!r:.40}"
    for field in all_fields(schema):
        if mode == "none" and physical_name(field) != field.name:
            return f"has a physical name for column {field.name!r}, and no column mapping"
        if mode != "none" and (field_id(field) is None or not isinstance(field.metadata.get(PHYSICAL_NAME), str)):
            return f"maps its columns, but {field.name!r} lacks an id or a physical name"
    return None


def map_fields(schema: StructType, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with every field changed, each before those inside it."""

    def inside(kind: DataType) -> DataType:
        match kind:
            case StructType():
                return StructType(tuple(one(field) for field in kind.fields))
            case ArrayType():
                return msgspec.structs.replace(kind, element_type=inside(kind.element_type))
            case MapType():
                return msgspec.structs.replace(kind, key_type=inside(kind.key_type), value_type=inside(kind.value_type))
            case _:
                return kind

    def one(field: StructField) -> StructField:
        changed = change(field)
        return msgspec.structs.replace(changed, type=inside(changed.type))

    return StructType(tuple(one(field) for field in schema.fields))


def all_fields(schema: StructType) -> Iterator[StructField]:
    """Every field, nested ones too, each before those inside it."""
    found: list[StructField] = []

    def note(field: StructField) -> StructField:
        found.append(field)
        return field

    map_fields(schema, note)
    return iter(found)


def _marked(field: StructField, marks: Mapping[str, Any]) -> StructField:
    return msgspec.structs.replace(field, metadata={**field.metadata, **marks})


def _ids(schema: StructType) -> Iterator[int]:
    for field in all_fields(schema):
        yield field_id(field) or 0
        # Tables that Iceberg reads number the elements of arrays and maps too.
        yield from (number for number in field.metadata.get(NESTED_IDS, {}).values() if type(number) is int)
