"""Columns by their paths.

Inside an array the next name is `element`, inside a map `key` or `value`. Names are found without regard to case, and a
`SchemaError` names the column that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltasql.errors import SchemaError
from deltasql.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

Path = tuple[str, ...]

_NAME = r"`(?:[^`]|``)+`|[^`.]+"
# Texts in quotes are passed over.
_WORDS = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | (?P<chain> (?:\w+|`(?:[^`]|``)+`) (?:\s*\.\s*(?:\w+|`(?:[^`]|``)+`))* )""",
    re.VERBOSE,
)
_PATH = re.compile(rf"(?:{_NAME})(?:\.(?:{_NAME}))*")


def parse_path(column: str | Sequence[str]) -> Path:
    """`a.b`, a name with dots in back ticks, or the names one by one."""
    if not isinstance(column, str):
        return tuple(column)
    if not _PATH.fullmatch(column):
        raise SchemaError(
            f"{column!r:.100} is not the name of a column",
            hint="write a.b for a field of a struct, and names with dots in back ticks: `a.b`",
            field="column",
        )
    names: list[str] = re.findall(_NAME, column)
    return tuple(name[1:-1].replace("``", "`") if name[0] == "`" else name for name in names)


def path_text(path: Sequence[str]) -> str:
    """A path as Delta Spark spells it in `commitInfo`."""
    return ".".join(f"`{name}`" if "." in name else name for name in path)


def resolve(schema: StructType, path: Path) -> Path:
    """The path as the schema spells it."""
    kind: DataType = schema
    found: list[str] = []
    for name in path:
        match kind:
            case StructType():
                field = field_in(kind, name, tuple(found))
                found.append(field.name)
                kind = field.type
            case _:
                found.append(name)
                kind = inside(kind, name, tuple(found))
    return tuple(found)


def field_at(schema: StructType, path: Path) -> StructField:
    """The field at a path; not the element of an array or map, which is none."""
    *parents, name = path
    kind: DataType = schema
    for place, parent in enumerate(parents):
        if isinstance(kind, StructType):
            kind = field_in(kind, parent, tuple(parents[:place])).type
        else:
            kind = inside(kind, parent, tuple(parents[: place + 1]))
    if not isinstance(kind, StructType):
        raise column_error(path, "is no field of a struct", "name a column, or a field of a struct")
    return field_in(kind, name, tuple(parents))


def field_in(struct: StructType, name: str, parents: Path) -> StructField:
    field = struct.field(name)
    if field is None:
        raise column_error((*parents, name), "does not exist", f"choose from: {', '.join(struct.names)}")
    return field


def inside(kind: DataType, name: str, path: Path) -> DataType:
    match kind, name:
        case ArrayType(), "element":
            return kind.element_type
        case MapType(), "key":
            return kind.key_type
        case MapType(), "value":
            return kind.value_type
        case _:
            hint = "write element inside an array, key or value inside a map"
            raise column_error(path, "does not exist: what it is named in is no struct", hint)


def mentions(expression: str, path: Path) -> bool:
    """Whether an SQL expression may depend on the column at a path: it names the column, or one around or inside it.

    Only names are looked at, so a function of the same name counts too.
    """
    wanted = [name.casefold() for name in path]
    for match in _WORDS.finditer(expression):
        if (chain := match["chain"]) is None:
            continue
        names = [name.casefold() for name in parse_path(re.sub(r"\s*\.\s*", ".", chain))]
        if all(one == other for one, other in zip(names, wanted, strict=False)):
            return True
    return False


def column_error(path: Path, message: str, hint: str) -> SchemaError:
    return SchemaError(f"column {path_text(path)} {message}", hint=hint, field=path_text(path))
