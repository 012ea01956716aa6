"""What may be done to a schema by hand: columns added, renamed, dropped, moved, widened.

Everything that cannot be done is a `SchemaError` that names the column.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from deltasql.protocol.column_mapping import all_fields
from deltasql.protocol.columns import Path, column_error, field_at, field_in, inside
from deltasql.protocol.evolution import type_text, widens
from deltasql.protocol.schema import ArrayType, DataType, StructField, StructType


def add_column(
    schema: StructType, field: StructField, within: Path = (), *, first: bool = False, after: str | None = None
) -> StructType:
    """A column more, at the end of the table or struct, or where it is wanted."""
    path = (*within, field.name)
    if not all(each.nullable for each in all_fields(StructType((field,)))):
        raise column_error(path, "may not be NOT NULL: rows that exist have no value for it", "make it nullable")

    def change(struct: StructType) -> StructType:
        if struct.field(field.name) is not None:
            raise column_error(path, "exists already", "choose another name (case is ignored)")
        place = 0 if first else len(struct.fields)
        if after is not None:
            place = struct.fields.index(field_in(struct, after, within)) + 1
        return StructType((*struct.fields[:place], field, *struct.fields[place:]))

    return _change_struct(schema, within, change)


def rename_column(schema: StructType, path: Path, name: str) -> StructType:
    def change(struct: StructType) -> StructType:
        old = field_in(struct, path[-1], path[:-1])
        taken = struct.field(name)
        if taken is not None and taken is not old:
            raise column_error((*path[:-1], name), "exists already", "choose another name (case is ignored)")
        if not name:
            raise column_error(path, "cannot get an empty name", "choose a name")
        renamed = msgspec.structs.replace(old, name=name)
        return StructType(tuple(renamed if field is old else field for field in struct.fields))

    return _change_struct(schema, path[:-1], change)


def drop_column(schema: StructType, path: Path) -> StructType:
    def change(struct: StructType) -> StructType:
        old = field_in(struct, path[-1], path[:-1])
        if len(struct.fields) == 1:
            raise column_error(path, "is the only one there", "drop the struct it is in, or the table")
        return StructType(tuple(field for field in struct.fields if field is not old))

    return _change_struct(schema, path[:-1], change)


def change_column(schema: StructType, path: Path, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with one field changed; its name stays."""
    old = field_at(schema, path)

    def replace(struct: StructType) -> StructType:
        return StructType(tuple(change(old) if field is old else field for field in struct.fields))

    return _change_struct(schema, path[:-1], replace)


def move_column(schema: StructType, path: Path, *, first: bool = False, after: str | None = None) -> StructType:
    moved = field_at(schema, path)

    def change(struct: StructType) -> StructType:
        others = tuple(field for field in struct.fields if field is not moved)
        target = None if after is None else field_in(struct, after, path[:-1])
        if target is moved or (target is None and not first):
            return struct
        place = 0 if target is None else others.index(target) + 1
        return StructType((*others[:place], moved, *others[place:]))

    return _change_struct(schema, path[:-1], change)


def widen_column(schema: StructType, path: Path, wider: DataType) -> StructType:
    """A column, or the element of an array or map, in a wider type. The change is not yet recorded."""

    def change(kind: DataType) -> DataType:
        if not widens(kind, wider):
            hint = "a whole number may become a larger one, a decimal or, up to integer, a double; a float a double; a "
            hint += "date a timestamp_ntz; a decimal one with as many digits before the point and after it, or more"
            raise column_error(path, f"is {type_text(kind)} and cannot become {type_text(wider)}", hint)
        return wider

    changed = _rewrite(schema, path, change, ())
    assert isinstance(changed, StructType)
    return changed


def _change_struct(schema: StructType, path: Path, change: Callable[[StructType], StructType]) -> StructType:
    def checked(kind: DataType) -> DataType:
        if not isinstance(kind, StructType):
            raise column_error(path, f"is {type_text(kind)}, which has no columns inside", "name a struct")
        return change(kind)

    changed = _rewrite(schema, path, checked, ())
    assert isinstance(changed, StructType)
    return changed


def _rewrite(kind: DataType, path: Path, change: Callable[[DataType], DataType], parents: Path) -> DataType:
    if not path:
        return change(kind)
    name, rest = path[0], path[1:]
    here = (*parents, name)
    if isinstance(kind, StructType):
        old = field_in(kind, name, parents)
        new = msgspec.structs.replace(old, type=_rewrite(old.type, rest, change, here))
        return StructType(tuple(new if field is old else field for field in kind.fields))
    inner = _rewrite(inside(kind, name, here), rest, change, here)
    if isinstance(kind, ArrayType):
        return msgspec.structs.replace(kind, element_type=inner)
    return msgspec.structs.replace(kind, **{f"{name}_type": inner})
