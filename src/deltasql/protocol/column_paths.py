"""The leaf columns of a schema, by the names people use and by those that files use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from deltasql.protocol.schema import DataType, StructField, StructType

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


class Leaf(msgspec.Struct, frozen=True):
    """A column that holds values: its path of names, the same in files, its type."""

    path: tuple[str, ...]
    physical: tuple[str, ...]
    type: DataType


def physical_name(field: StructField) -> str:
    """The name that files and actions use for a column."""
    return field.metadata.get(_PHYSICAL_NAME, field.name)


def leaf_columns(schema: StructType) -> list[Leaf]:
    """Every column that is no struct, in order."""
    return _leaves(schema, (), ())


def _leaves(schema: StructType, path: tuple[str, ...], physical: tuple[str, ...]) -> list[Leaf]:
    found: list[Leaf] = []
    for field in schema.fields:
        here, there = (*path, field.name), (*physical, physical_name(field))
        if isinstance(field.type, StructType):
            found += _leaves(field.type, here, there)
        else:
            found.append(Leaf(here, there, field.type))
    return found


def physical_path(schema: StructType, path: Sequence[str]) -> tuple[str, ...] | None:
    """The path of a column in files; None where there is no such column."""
    found: list[str] = []
    inside: DataType = schema
    for name in path:
        field = inside.field(name) if isinstance(inside, StructType) else None
        if field is None:
            return None
        found.append(physical_name(field))
        inside = field.type
    return tuple(found)
