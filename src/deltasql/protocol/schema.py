"""The schema of a Delta table: types, their JSON, and what a name may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from deltasql.errors import SchemaError
from deltasql.protocol.jsonlog import dump_json, load_object

PRIMITIVES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "variant",
    }
)

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
MAX_DECIMAL_PRECISION = 38
MAX_NESTING = 100


class PrimitiveType(msgspec.Struct, frozen=True):
    """A type that is a bare name in the schema's JSON. Names this release does not know are carried as they are."""

    name: str


class DecimalType(msgspec.Struct, frozen=True):
    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"decimal({self.precision},{self.scale})"


class ArrayType(msgspec.Struct, frozen=True):
    element_type: DataType
    contains_null: bool = True


class MapType(msgspec.Struct, frozen=True):
    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True


class StructField(msgspec.Struct, frozen=True):
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = {}


class StructType(msgspec.Struct, frozen=True):
    fields: tuple[StructField, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> StructField | None:
        """The field of that name. Delta ignores case when it looks a column up."""
        folded = name.casefold()
        return next((field for field in self.fields if field.name.casefold() == folded), None)


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType


def parse_schema(text: str) -> StructType:
    """The schema of a `schemaString`."""
    parsed = _parse_type(load_object(text, source="schemaString"), "schema", 0)
    if not isinstance(parsed, StructType):
        raise _bad("schema", "the outermost type must be a struct")
    return parsed


def schema_string(schema: StructType) -> str:
    """The `schemaString` of a schema, spelled as Delta Spark spells it."""
    return dump_json(_type_json(schema)).decode()


def check_schema(schema: StructType) -> None:
    """Refuse what no Delta reader could open: no columns, a name twice, an empty name, an impossible decimal."""
    if not schema.fields:
        raise _bad("schema", "a table needs at least one column")
    _check(schema, "")


def leaves(schema: StructType) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Every leaf column with its path, in schema order. Arrays and maps are leaves: nothing inside has statistics."""
    for field in schema.fields:
        if isinstance(field.type, StructType):
            for path, inner in leaves(field.type):
                yield (field.name, *path), inner
        else:
            yield (field.name,), field.type


def _bad(path: str, message: str) -> SchemaError:
    return SchemaError(f"{path}: {message}", hint="correct the schema and try again", field=path)


def _parse_type(value: Any, path: str, depth: int) -> DataType:
    if depth > MAX_NESTING:
        raise _bad(path, f"types are nested more than {MAX_NESTING} deep")
    if isinstance(value, str):
        match = _DECIMAL.fullmatch(value)
        return DecimalType(int(match[1]), int(match[2])) if match else PrimitiveType(value)
    if not isinstance(value, dict):
        raise _bad(path, "a type is a name or an object")
    body = cast("dict[str, Any]", value)
    match body.get("type"):
        case "struct":
            fields = _take(body, "fields", list, path)
            return StructType(tuple(_parse_field(item, path, depth + 1) for item in fields))
        case "array":
            element = _parse_type(body.get("elementType"), f"{path}.element", depth + 1)
            return ArrayType(element, _take(body, "containsNull", bool, path))
        case "map":
            return MapType(
                _parse_type(body.get("keyType"), f"{path}.key", depth + 1),
                _parse_type(body.get("valueType"), f"{path}.value", depth + 1),
                _take(body, "valueContainsNull", bool, path),
            )
        case other:
            raise _bad(path, f"unknown type {other!r}")


def _parse_field(value: Any, parent: str, depth: int) -> StructField:
    if not isinstance(value, dict):
        raise _bad(parent, "a field must be an object")
    body = cast("dict[str, Any]", value)
    name = _take(body, "name", str, parent)
    path = f"{parent}.{name}"
    return StructField(
        name,
        _parse_type(body.get("type"), path, depth),
        _take(body, "nullable", bool, path),
        body.get("metadata") or {},
    )


def _take(body: dict[str, Any], name: str, kind: type, path: str) -> Any:
    value = body.get(name)
    if not isinstance(value, kind):
        raise _bad(path, f"{name} is missing or has the wrong type")
    return value


def _type_json(kind: DataType) -> Any:
    match kind:
        case PrimitiveType() | DecimalType():
            return kind.name
        case ArrayType():
            return {
                "type": "array",
                "elementType": _type_json(kind.element_type),
                "containsNull": kind.contains_null,
            }
        case MapType():
            return {
                "type": "map",
                "keyType": _type_json(kind.key_type),
                "valueType": _type_json(kind.value_type),
                "valueContainsNull": kind.value_contains_null,
            }
        case StructType():
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": field.name,
                        "type": _type_json(field.type),
                        "nullable": field.nullable,
                        "metadata": field.metadata,
                    }
                    for field in kind.fields
                ],
            }


# Without column mapping a name goes into Parquet as it is, and Spark refuses these there.
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")


def _check(kind: DataType, path: str) -> None:
    match kind:
        case StructType():
            seen: set[str] = set()
            for field in kind.fields:
                inner = f"{path}.{field.name}" if path else field.name
                if not field.name:
                    raise _bad(path or "schema", "a column has an empty name")
                if forbidden := _FORBIDDEN.search(field.name):
                    raise _bad(inner, f"the character {forbidden[0]!r} is not allowed in a column name")
                if field.name.casefold() in seen:
                    raise _bad(inner, "the name stands twice (Delta ignores case)")
                seen.add(field.name.casefold())
                _check(field.type, inner)
        case ArrayType():
            _check(kind.element_type, f"{path}.element")
        case MapType():
            _check(kind.key_type, f"{path}.key")
            _check(kind.value_type, f"{path}.value")
        case DecimalType():
            if not (0 < kind.precision <= MAX_DECIMAL_PRECISION and 0 <= kind.scale <= kind.precision):
                raise _bad(path, f"{kind.name} is outside decimal(1..{MAX_DECIMAL_PRECISION}, 0..precision)")
        case PrimitiveType():
            if kind.name not in PRIMITIVES:
                raise _bad(path, f"unknown type {kind.name!r}")
