"""Rows as data files hold them: by physical names and ids, and with what the schema was when they were written."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow_types

from deltasql.protocol.arrow import schema_to_arrow, unnest
from deltasql.protocol.column_mapping import all_fields, field_id, physical_schema
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

_FIELD_ID = "PARQUET:field_id"


def to_physical(rows: pa.Table, schema: StructType) -> pa.Table:
    """Rows of a mapped table under the names and ids its files use. Nothing is copied."""
    physical = physical_schema(schema)
    wanted = pa.schema([_with_id(*pair) for pair in zip(schema_to_arrow(physical), physical.fields, strict=True)])
    return pa.Table.from_batches([pa.record_batch(_Renamed(batch, wanted)) for batch in rows.to_batches()], wanted)


class _Renamed:
    """A batch with another schema of the same layout: Arrow would rename the fields inside structs only by a copy."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _with_id(field: pa.Field, structure: StructField) -> pa.Field:
    kind = _with_ids(field.type, structure.type)
    return pa.field(field.name, kind, field.nullable, {_FIELD_ID: str(field_id(structure))})


def _with_ids(kind: pa.DataType, structure: DataType) -> pa.DataType:
    match structure:
        case StructType():
            return pa.struct([_with_id(*pair) for pair in zip(kind, structure.fields, strict=True)])
        case ArrayType():
            element = kind.value_field
            return pa.list_(element.with_type(_with_ids(element.type, structure.element_type)))
        case MapType():
            key, value = kind.key_field, kind.item_field
            return pa.map_(
                key.with_type(_with_ids(key.type, structure.key_type)),
                value.with_type(_with_ids(value.type, structure.value_type)),
            )
        case _:
            return kind


# -- and back -------------------------------------------------------------------------------------------------------


def has_ids(found: pa.Schema) -> bool:
    return any(_id(field) is not None for field in found)


def locate(found: Iterable[pa.Field], wanted: StructField, *, by_id: bool) -> int | None:
    """Where a column stands among the fields of a file, or of a struct in it; None where it is not there."""
    for position, field in enumerate(found):
        if _id(field) == field_id(wanted) if by_id else field.name == physical_name(wanted):
            return position
    return None


def from_physical(column: pa.ChunkedArray, wanted: StructField, target: pa.DataType, *, by_id: bool) -> pa.ChunkedArray:
    """A column of a file as the schema has it now: fields where they are found, nulls where they are not, types cast.

    `ArrowInvalid` or `ArrowNotImplementedError` where the file does not fit the schema.
    """
    if column.type == target and (_keeps_names(wanted) or not arrow_types.is_nested(target)):
        return column
    return pa.chunked_array([_cast(chunk, wanted.type, target, by_id) for chunk in column.chunks], target)


def _keeps_names(wanted: StructField) -> bool:
    """Whether files have the schema's own names. Else the same names may have changed places meanwhile."""
    inner = all_fields(StructType((wanted,)))
    return all(field_id(field) is None and physical_name(field) == field.name for field in inner)


def _cast(array: pa.Array, wanted: DataType, target: pa.DataType, by_id: bool) -> pa.Array:
    match wanted:
        case StructType() if arrow_types.is_struct(array.type):
            return _cast_struct(array, wanted, target, by_id)
        case ArrayType() if arrow_types.is_list(array.type) or arrow_types.is_large_list(array.type):
            offsets, values, mask = unnest(array)
            values = _cast(values, wanted.element_type, target.value_type, by_id)
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
        case MapType() if arrow_types.is_map(array.type):
            entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
            offsets, values, mask = unnest(array.cast(pa.list_(entry)))
            keys = _cast(values.field(0), wanted.key_type, target.key_type, by_id)
            items = _cast(values.field(1), wanted.value_type, target.item_type, by_id)
            return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
        case _:
            return array.cast(target)


def _cast_struct(array: pa.StructArray, wanted: StructType, target: pa.DataType, by_id: bool) -> pa.Array:
    found: Sequence[pa.Field] = list(array.type)
    children: list[pa.Array] = []
    for field, goal in zip(wanted.fields, target, strict=True):
        position = locate(found, field, by_id=by_id)
        # Not flattened: where the struct is null, a field that may not be keeps the value the file has there.
        children.append(
            pa.nulls(len(array), goal.type)
            if position is None
            else _cast(array.field(position), field.type, goal.type, by_id)
        )
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID.encode())
    return None if text is None else int(text)
