"""How a schema grows: which types may become which wider ones, and what appended data adds to a table's columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as arrow_types

from deltasql.errors import SchemaError
from deltasql.protocol.arrow import may_hold, schema_from_arrow
from deltasql.protocol.columns import Path, column_error
from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
)

TYPE_CHANGES = "delta.typeChanges"

_INTEGERS = ("byte", "short", "integer", "long")
# How many digits before the point hold every value of a type, as the protocol counts them.
_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_PAIRS = {("float", "double"), ("date", "timestamp_ntz")}
_TO_DOUBLE = {"byte", "short", "integer"}


def widens(old: DataType, new: DataType) -> bool:
    """Whether the protocol lets a column of one type become one of the other."""
    match old, new:
        case PrimitiveType(), PrimitiveType() if old.name in _INTEGERS and new.name in _INTEGERS:
            return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
        case PrimitiveType(), PrimitiveType():
            return (old.name, new.name) in _PAIRS or (old.name in _TO_DOUBLE and new.name == "double")
        case PrimitiveType(), DecimalType():
            return new.precision - new.scale >= _INTEGER_DIGITS.get(old.name, 100)
        case DecimalType(), DecimalType():
            return old != new and new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case _:
            return False


def record_type_changes(old: StructType, new: StructType, version: int | None = None) -> StructType:
    """The new schema with every change of a type noted at the struct field it happened in, as readers need it.

    Only the preview of the feature wants the `version` in which the change was made.
    """
    known = {field.name: field for field in old.fields}
    return StructType(tuple(_record(known.get(field.name), field, version) for field in new.fields))


def named_type(name: str) -> DataType:
    """A type that is not nested, by its name in the schema's JSON: `long`, `decimal(12,2)`."""
    text = dump_json({"type": "struct", "fields": [{"name": "value", "type": name, "nullable": True}]})
    return parse_schema(text.decode()).fields[0].type


def type_text(kind: DataType) -> str:
    match kind:
        case PrimitiveType() | DecimalType():
            return kind.name
        case StructType():
            return "struct"
        case ArrayType():
            return "array"
        case MapType():
            return "map"


def widened_paths(old: DataType, new: DataType, path: Path = ()) -> Iterator[Path]:
    """The columns and elements of the old type that the new one has with another type."""
    match old, new:
        case StructType(), StructType():
            for field in old.fields:
                if (kept := new.field(field.name)) is not None:
                    yield from widened_paths(field.type, kept.type, (*path, field.name))
        case ArrayType(), ArrayType():
            yield from widened_paths(old.element_type, new.element_type, (*path, "element"))
        case MapType(), MapType():
            yield from widened_paths(old.key_type, new.key_type, (*path, "key"))
            yield from widened_paths(old.value_type, new.value_type, (*path, "value"))
        case _:
            if old != new:
                yield path


def _record(old: StructField | None, new: StructField, version: int | None) -> StructField:
    if old is None or old.type == new.type:
        return new
    number: dict[str, Any] = {} if version is None else {"tableVersion": version}
    changes = [
        {**number, "fromType": type_text(before), "toType": type_text(after)}
        | ({"fieldPath": ".".join(path)} if path else {})
        for path, before, after in _leaf_changes(old.type, new.type, ())
    ]
    marks = {TYPE_CHANGES: [*new.metadata.get(TYPE_CHANGES, []), *changes]} if changes else {}
    return msgspec.structs.replace(
        new, type=_record_inside(old.type, new.type, version), metadata={**new.metadata, **marks}
    )


def _record_inside(old: DataType, new: DataType, version: int | None) -> DataType:
    match old, new:
        case StructType(), StructType():
            return record_type_changes(old, new, version)
        case ArrayType(), ArrayType():
            return msgspec.structs.replace(
                new, element_type=_record_inside(old.element_type, new.element_type, version)
            )
        case MapType(), MapType():
            return msgspec.structs.replace(
                new,
                key_type=_record_inside(old.key_type, new.key_type, version),
                value_type=_record_inside(old.value_type, new.value_type, version),
            )
        case _:
            return new


def _leaf_changes(old: DataType, new: DataType, path: Path) -> Iterator[tuple[Path, DataType, DataType]]:
    """Changes below one struct field, but not those inside another struct."""
    match old, new:
        case ArrayType(), ArrayType():
            yield from _leaf_changes(old.element_type, new.element_type, (*path, "element"))
        case MapType(), MapType():
            yield from _leaf_changes(old.key_type, new.key_type, (*path, "key"))
            yield from _leaf_changes(old.value_type, new.value_type, (*path, "value"))
        case StructType(), StructType():
            return
        case _:
            if old != new:
                yield path, old, new


# -- what appended data adds ----------------------------------------------------------------------------------------


def evolve(schema: StructType, data: pa.Schema, *, widening: bool = False) -> StructType:
    """The schema that holds its own columns and those that only the data has, which come last and are nullable.

    Columns are matched by name, inside structs too; the data's order does not matter. With `widening` a column whose
    data has a wider type becomes wider; else it keeps its type, and whether the values fit is seen when they come.
    """
    return _merge_struct(schema, list(data), (), widening)


def _merge_struct(current: StructType, data: list[pa.Field], path: Path, widening: bool) -> StructType:
    found: dict[str, pa.Field] = {}
    for field in data:
        if found.setdefault(field.name.casefold(), field) is not field:
            raise column_error((*path, field.name), "stands twice in the data", "drop or rename one (case is ignored)")
    kept = [
        msgspec.structs.replace(field, type=_merge(field.type, found[name].type, (*path, field.name), widening))
        if (name := field.name.casefold()) in found
        else field
        for field in current.fields
    ]
    fresh = pa.schema([field for field in data if current.field(field.name) is None])
    return StructType((*kept, *(_nullable(field) for field in schema_from_arrow(fresh, path).fields)))


def _merge(current: DataType, data: pa.DataType, path: Path, widening: bool) -> DataType:
    if arrow_types.is_dictionary(data):
        return _merge(current, data.value_type, path, widening)
    if arrow_types.is_null(data):
        return current
    match current:
        case StructType() if arrow_types.is_struct(data):
            return _merge_struct(current, list(data), path, widening)
        case ArrayType() if hasattr(data, "value_field"):
            inner = _merge(current.element_type, data.value_field.type, (*path, "element"), widening)
            return msgspec.structs.replace(current, element_type=inner)
        case MapType() if arrow_types.is_map(data):
            return msgspec.structs.replace(
                current,
                key_type=_merge(current.key_type, data.key_type, (*path, "key"), widening),
                value_type=_merge(current.value_type, data.item_type, (*path, "value"), widening),
            )
        case PrimitiveType() | DecimalType() if not arrow_types.is_nested(data):
            wider = _delta_type(data) if widening else None
            if wider is not None and _widens_by_itself(current, wider):
                return wider
            if may_hold(data, current):
                return current
        case _:
            pass
    raise column_error(path, f"is {type_text(current)} in the table and {data} in the data", "cast the data's column")


def _delta_type(data: pa.DataType) -> DataType | None:
    try:
        return schema_from_arrow(pa.schema([("value", data)])).fields[0].type
    except SchemaError:
        return None


def _widens_by_itself(old: DataType, new: DataType) -> bool:
    """Delta does not turn a whole number into another kind of number merely because data says so."""
    return widens(old, new) and not (
        isinstance(old, PrimitiveType) and old.name in _INTEGERS and type_text(new) not in _INTEGERS
    )


def _nullable(field: StructField) -> StructField:
    return msgspec.structs.replace(field, nullable=True, type=_nullable_inside(field.type))


def _nullable_inside(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType(tuple(_nullable(field) for field in kind.fields))
        case ArrayType():
            return ArrayType(_nullable_inside(kind.element_type), contains_null=True)
        case MapType():
            return MapType(_nullable_inside(kind.key_type), _nullable_inside(kind.value_type), value_contains_null=True)
        case _:
            return kind
