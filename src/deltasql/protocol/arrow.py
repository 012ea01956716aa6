"""Arrow and Delta: one schema for the other, and data made to fit a table.

Every Delta type has one canonical Arrow type, the one data files are written from. Data that comes in may have
another of the same family (a larger string, a narrower integer, another time zone); it is cast where no value
changes and refused where one would.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from deltasql.errors import InvalidInputError, SchemaError
from deltasql.protocol.schema import (
    MAX_DECIMAL_PRECISION,
    MAX_NESTING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_DELTA: dict[pa.DataType, str] = {
    **{kind: name for name, kind in _ARROW.items()},
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date64(): "date",
}

# What to cast a type to that Delta does not have.
_INSTEAD: dict[pa.DataType, str] = {
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
    pa.uint64(): "decimal128(20, 0)",
    pa.float16(): "float32",
    pa.null(): "the type the column is meant to have",
}


class _Place(NamedTuple):
    """Where in a schema something stands, for the error that names it."""

    path: tuple[str, ...] = ()
    table: str | None = None
    # Whether nullable columns may be left out of the data.
    fill: bool = False

    def at(self, name: str) -> _Place:
        return self._replace(path=(*self.path, name))

    def error(self, message: str, hint: str) -> SchemaError:
        column = ".".join(self.path)
        prefix = f"table {self.table}: " if self.table else ""
        return SchemaError(f"{prefix}column {column} {message}", hint=hint, field=column)


def schema_from_arrow(schema: pa.Schema, path: tuple[str, ...] = ()) -> StructType:
    """The Delta schema of Arrow data; `SchemaError` names the column whose type Delta does not have.

    `path` is where the columns stand, for those inside a struct.
    """
    return _struct_from_arrow(list(schema), _Place(path))


def schema_to_arrow(schema: StructType) -> pa.Schema:
    """The canonical Arrow schema of a Delta schema."""
    return pa.schema(_fields_to_arrow(schema, _Place()))


def may_hold(found: pa.DataType, wanted: DataType) -> bool:
    """Whether values of an Arrow type may go into a column that is not nested, as far as they fit."""
    return _same_family(found, _type_to_arrow(wanted, _Place()))


def as_table(data: object) -> pa.Table:
    """Whatever speaks Arrow (tables, batches, readers, Polars, DuckDB, pandas) as one table."""
    value = cast("Any", data)
    if isinstance(value, pa.Table):
        return value
    try:
        if isinstance(value, pa.RecordBatch):
            return pa.Table.from_batches([value])
        if isinstance(value, Sequence) and all(isinstance(item, pa.RecordBatch) for item in value):
            return pa.Table.from_batches(list(value))
        if type(value).__module__.startswith("pandas.") and hasattr(value, "columns"):
            return pa.Table.from_pandas(value, preserve_index=False)
        if hasattr(value, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(value).read_all()
        if hasattr(value, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(value)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the data cannot be read as an Arrow table: {error}",
            hint="check that all batches have one schema and every column has one type",
            field="data",
        ) from error
    raise InvalidInputError(
        f"data of type {type(data).__name__} is not a table",
        hint="pass a pyarrow Table, RecordBatch or RecordBatchReader, a list of batches, or a data frame",
        field="data",
    )


def conform(data: pa.Table, schema: StructType, *, table: str, fill: bool = False) -> pa.Table:
    """The data as the table's canonical Arrow schema has it, columns in the table's order.

    Columns are matched by name, as Delta does without regard to case, inside structs too. Casts happen within a
    family of types and only where no value changes; everything else is a `SchemaError` that names the column. With
    `fill` a nullable column that the data lacks becomes null.
    """
    try:
        data.validate(full=True)
    except pa.ArrowException as error:
        raise SchemaError(
            f"table {table}: the Arrow data is damaged: {error}",
            hint="build the data again; text must be UTF-8",
            field="data",
        ) from error
    place = _Place(table=table, fill=fill)
    positions = _match(data.schema.names, schema, place)
    columns = [
        pa.chunked_array(
            [_fit(chunk, field.type, field.nullable, place.at(field.name)) for chunk in data.column(position).chunks]
            if position is not None
            else [pa.nulls(data.num_rows, _type_to_arrow(field.type, place.at(field.name)))],
            type=_type_to_arrow(field.type, place.at(field.name)),
        )
        for field, position in zip(schema.fields, positions, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema_to_arrow(schema))


# -- schemas --------------------------------------------------------------------------------------------------------


def _struct_from_arrow(fields: list[pa.Field], place: _Place) -> StructType:
    return StructType(
        tuple(
            StructField(field.name, _type_from_arrow(field.type, place.at(field.name)), field.nullable)
            for field in fields
        )
    )


def _type_from_arrow(kind: pa.DataType, place: _Place) -> DataType:
    if len(place.path) > MAX_NESTING:
        raise place.error(f"is nested more than {MAX_NESTING} deep", "flatten the column")
    if name := _DELTA.get(kind):
        return PrimitiveType(name)
    if arrow_types.is_dictionary(kind):
        return _type_from_arrow(kind.value_type, place)
    if arrow_types.is_timestamp(kind):
        return PrimitiveType("timestamp_ntz" if kind.tz is None else "timestamp")
    if arrow_types.is_fixed_size_binary(kind):
        return PrimitiveType("binary")
    if arrow_types.is_decimal(kind) and not arrow_types.is_decimal256(kind):
        if not 0 <= kind.scale <= kind.precision:
            raise place.error(f"is {kind}, whose scale Delta does not have", "use a scale from 0 to the precision")
        return DecimalType(kind.precision, kind.scale)
    if _is_list(kind):
        element = kind.value_field
        return ArrayType(_type_from_arrow(element.type, place.at("element")), element.nullable)
    if arrow_types.is_map(kind):
        return MapType(
            _type_from_arrow(kind.key_type, place.at("key")),
            _type_from_arrow(kind.item_type, place.at("value")),
            kind.item_field.nullable,
        )
    if arrow_types.is_struct(kind):
        return _struct_from_arrow([kind.field(index) for index in range(kind.num_fields)], place)
    raise place.error(f"has the type {kind}, which Delta does not have", f"cast it to {_instead(kind)}")


def _instead(kind: pa.DataType) -> str:
    if arrow_types.is_decimal(kind):
        precision = min(kind.precision, MAX_DECIMAL_PRECISION)
        return f"decimal128({precision}, {min(max(kind.scale, 0), precision)})"
    if arrow_types.is_time(kind) or arrow_types.is_duration(kind):
        return "int64 or string"
    if isinstance(kind, pa.BaseExtensionType):
        return f"its storage type {kind.storage_type}"
    if arrow_types.is_run_end_encoded(kind):
        return str(kind.value_type)
    return _INSTEAD.get(kind, "one of the types of Delta, such as string")


def _fields_to_arrow(schema: StructType, place: _Place) -> list[pa.Field]:
    return [
        pa.field(field.name, _type_to_arrow(field.type, place.at(field.name)), field.nullable)
        for field in schema.fields
    ]


def _type_to_arrow(kind: DataType, place: _Place) -> pa.DataType:
    match kind:
        case PrimitiveType():
            if kind.name not in _ARROW:
                raise place.error(f"has the type {kind.name}", "deltasql does not read or write this type")
            return _ARROW[kind.name]
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case ArrayType():
            element = _type_to_arrow(kind.element_type, place.at("element"))
            return pa.list_(pa.field("element", element, kind.contains_null))
        case MapType():
            return pa.map_(
                pa.field("key", _type_to_arrow(kind.key_type, place.at("key")), nullable=False),
                pa.field("value", _type_to_arrow(kind.value_type, place.at("value")), kind.value_contains_null),
            )
        case StructType():
            return pa.struct(_fields_to_arrow(kind, place))


def _is_list(kind: pa.DataType) -> bool:
    return (
        arrow_types.is_list(kind)
        or arrow_types.is_large_list(kind)
        or arrow_types.is_fixed_size_list(kind)
        or arrow_types.is_list_view(kind)
        or arrow_types.is_large_list_view(kind)
    )


# -- data -----------------------------------------------------------------------------------------------------------


def _match(names: Sequence[str], wanted: StructType, place: _Place) -> list[int | None]:
    """Where each wanted field stands among the names found; None where it is to be filled with nulls."""
    found: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.casefold() in found:
            raise place.at(name).error("stands twice in the data", "drop or rename one of the two (case is ignored)")
        found[name.casefold()] = position
    known = {field.name.casefold() for field in wanted.fields}
    for name in names:
        if name.casefold() not in known:
            raise place.at(name).error("is not in the table", "drop it from the data, or add it to the table first")
    for field in wanted.fields:
        if field.name.casefold() not in found and not (place.fill and field.nullable):
            hint = "add it to the data as nulls" if field.nullable else "add it to the data: it may not be null"
            raise place.at(field.name).error("is missing from the data", hint)
    return [found.get(field.name.casefold()) for field in wanted.fields]


def _fit(array: pa.Array, wanted: DataType, nullable: bool, place: _Place) -> pa.Array:
    fitted = _cast(array, wanted, place)
    if not nullable and fitted.null_count:
        raise place.error("has nulls, and the table does not allow them there", "fill the nulls or drop those rows")
    return fitted


def _cast(array: pa.Array, wanted: DataType, place: _Place) -> pa.Array:
    target = _type_to_arrow(wanted, place)
    if arrow_types.is_null(array.type):
        array = pa.nulls(len(array), target)
    if arrow_types.is_dictionary(array.type):
        return _cast(array.dictionary, wanted, place).take(array.indices)
    match wanted:
        case StructType() if arrow_types.is_struct(array.type):
            return _cast_struct(array, wanted, target, place)
        case ArrayType() if _is_list(array.type):
            offsets, values, mask = _unnest(array, place)
            values = _fit(values, wanted.element_type, wanted.contains_null, place.at("element"))
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
        case MapType() if arrow_types.is_map(array.type):
            entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
            offsets, entries, mask = _unnest(array.cast(pa.list_(entry)), place)
            keys = _fit(entries.field(0), wanted.key_type, False, place.at("key"))
            items = _fit(entries.field(1), wanted.value_type, wanted.value_contains_null, place.at("value"))
            return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
        case PrimitiveType() | DecimalType() if _same_family(array.type, target):
            try:
                return array.cast(target)
            except pa.ArrowInvalid as error:
                raise _misfit(array.type, target, place, f": {error}") from error
        case _:
            raise _misfit(array.type, target, place)


def _cast_struct(array: pa.StructArray, wanted: StructType, target: pa.DataType, place: _Place) -> pa.Array:
    found = [array.type.field(index).name for index in range(array.type.num_fields)]
    positions = _match(found, wanted, place)
    if not positions:
        return array.cast(target)
    # Flattening makes a field null wherever its struct is: what is hidden there does not count.
    children = array.flatten()
    fitted: list[pa.Array] = []
    for field, position in zip(wanted.fields, positions, strict=True):
        inner = place.at(field.name)
        if position is None:
            fitted.append(pa.nulls(len(array), _type_to_arrow(field.type, inner)))
        elif field.nullable:
            fitted.append(_cast(children[position], field.type, inner))
        else:
            fitted.append(_fit_required(children[position], array, field.type, inner))
    return pa.StructArray.from_arrays(fitted, fields=list(target), mask=array.is_null())


def _fit_required(child: pa.Array, parent: pa.StructArray, wanted: DataType, place: _Place) -> pa.Array:
    """A field that may not be null. Parquet's writer wants a value even where the struct is null: it gets a blank."""
    present = parent.is_valid()
    fitted = _fit(child.filter(present), wanted, False, place)
    if not parent.null_count:
        return fitted
    blank = pa.array([_blank(wanted)], fitted.type)
    present = present.cast(pa.int64())
    return pa.concat_arrays([blank, fitted]).take(pc.multiply(pc.cumulative_sum(present), present))


def _blank(kind: DataType) -> object:
    match kind:
        case StructType():
            return {field.name: None if field.nullable else _blank(field.type) for field in kind.fields}
        case ArrayType() | MapType():
            return []
        case DecimalType():
            return Decimal(0)
        case PrimitiveType():
            return {"string": "", "binary": b"", "boolean": False}.get(kind.name, 0)


def _unnest(array: pa.Array, place: _Place) -> tuple[pa.Array, pa.Array, pa.Array]:
    try:
        return unnest(array)
    except pa.ArrowInvalid as error:
        raise place.error("has more than 2147483647 elements in one batch", "pass smaller batches") from error


def unnest(array: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The offsets, visible values and null mask of any kind of list, made afresh: slices and hidden values are gone."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    return offsets, array.flatten(), array.is_null()


def _same_family(found: pa.DataType, target: pa.DataType) -> bool:
    """May a value of one type be cast to the other, if it fits?"""
    if found == target:
        return True
    if arrow_types.is_integer(target):
        return arrow_types.is_integer(found)
    if arrow_types.is_floating(target):
        return arrow_types.is_floating(found) and found.bit_width < target.bit_width
    if arrow_types.is_decimal(target):
        return arrow_types.is_decimal(found)
    if arrow_types.is_timestamp(target):
        return arrow_types.is_timestamp(found) and (found.tz is None) == (target.tz is None)
    if arrow_types.is_binary(target):
        return _DELTA.get(found) == "binary" or arrow_types.is_fixed_size_binary(found)
    return _DELTA.get(found) == _DELTA[target]


def _misfit(found: pa.DataType, target: pa.DataType, place: _Place, detail: str = "") -> SchemaError:
    hint = f"cast the column to {target}"
    if arrow_types.is_timestamp(found) and arrow_types.is_timestamp(target):
        if target.tz is not None and found.tz is None:
            hint = "say which time zone the values are in, e.g. pyarrow.compute.assume_timezone"
        elif target.tz is None and found.tz is not None:
            hint = "turn the instants into local times, e.g. pyarrow.compute.local_timestamp"
    return place.error(f"is {found}, the table wants {target}{detail}", hint)
