"""Changes of a schema by hand: where a column comes to stand, and what cannot be done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltasql.errors import SchemaError
from deltasql.protocol.alteration import (
    add_column,
    change_column,
    drop_column,
    move_column,
    rename_column,
    widen_column,
)
from deltasql.protocol.columns import field_at, mentions, parse_path, path_text, resolve
from deltasql.protocol.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

pytestmark = pytest.mark.unit

INT, LONG, TEXT = PrimitiveType("integer"), PrimitiveType("long"), PrimitiveType("string")
POINT = StructType((StructField("x", INT), StructField("y", INT, metadata={"comment": "up"})))
SCHEMA = StructType(
    (
        StructField("id", LONG, nullable=False),
        StructField("point", POINT),
        StructField("path", ArrayType(POINT)),
        StructField("named", MapType(TEXT, POINT)),
        StructField("a.b", INT),
    )
)
FRESH = StructField("fresh", TEXT)


def names(schema: StructType, *path: str) -> tuple[str, ...]:
    """The names of the fields of a struct, or of the table."""
    if not path:
        return schema.names
    field = schema
    for name in path:
        found = field.field(name) if isinstance(field, StructType) else None
        kind = None if found is None else found.type
        if isinstance(field, ArrayType):
            kind = field.element_type
        elif isinstance(field, MapType):
            kind = field.value_type
        field = kind
    assert isinstance(field, StructType)
    return field.names


@pytest.mark.parametrize(
    ("within", "first", "after", "found"),
    [
        ((), False, None, ("id", "point", "path", "named", "a.b", "fresh")),
        ((), True, None, ("fresh", "id", "point", "path", "named", "a.b")),
        ((), False, "ID", ("id", "fresh", "point", "path", "named", "a.b")),
        (("point",), False, None, ("x", "y", "fresh")),
        (("POINT",), True, None, ("fresh", "x", "y")),
        (("path", "element"), False, "x", ("x", "fresh", "y")),
        (("named", "value"), False, None, ("x", "y", "fresh")),
    ],
)
def test_a_column_comes_to_stand_where_it_is_wanted(
    within: tuple[str, ...], first: bool, after: str | None, found: tuple[str, ...]
) -> None:
    changed = add_column(SCHEMA, FRESH, within, first=first, after=after)
    assert names(changed, *(name.lower() for name in within)) == found
    # Nothing else moved.
    assert drop_column(changed, (*within, "fresh")) == SCHEMA


def test_a_rename_keeps_everything_else_even_deep_inside() -> None:
    changed = rename_column(SCHEMA, ("path", "element", "y"), "height")
    assert names(changed, "path", "element") == ("x", "height")
    assert field_at(changed, ("path", "element", "height")).metadata == {"comment": "up"}
    assert names(changed, "point") == ("x", "y")
    # Only the spelling.
    assert names(rename_column(SCHEMA, ("id",), "ID"))[0] == "ID"


def test_a_column_moves() -> None:
    assert names(move_column(SCHEMA, ("named",), first=True))[0] == "named"
    assert names(move_column(SCHEMA, ("id",), after="path")) == ("point", "path", "id", "named", "a.b")
    assert names(move_column(SCHEMA, ("point", "x"), after="y"), "point") == ("y", "x")
    assert move_column(SCHEMA, ("id",), after="id") == SCHEMA


def test_a_column_is_changed_in_its_place() -> None:
    changed = change_column(SCHEMA, ("ID",), lambda field: StructField(field.name, field.type, True))
    assert changed.fields[0] == StructField("id", LONG)
    assert changed.fields[1:] == SCHEMA.fields[1:]


def test_columns_and_elements_become_wider() -> None:
    assert field_at(widen_column(SCHEMA, ("point", "x"), LONG), ("point", "x")).type == LONG
    numbers = StructType((StructField("all", ArrayType(MapType(INT, INT))),))
    wider = widen_column(numbers, ("all", "element", "key"), DecimalType(12, 2))
    assert wider.fields[0].type == ArrayType(MapType(DecimalType(12, 2), INT))


def never(change: Callable[[], object]) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        change()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda: add_column(SCHEMA, StructField("ID", TEXT)), "ID"),
        (lambda: add_column(SCHEMA, StructField("n", TEXT, nullable=False)), "n"),
        (lambda: add_column(SCHEMA, StructField("n", StructType((StructField("i", INT, False),)))), "n"),
        (lambda: add_column(SCHEMA, FRESH, ("id",)), "id"),
        (lambda: add_column(SCHEMA, FRESH, ("path",)), "path"),
        (lambda: add_column(SCHEMA, FRESH, after="nobody"), "nobody"),
        (lambda: rename_column(SCHEMA, ("id",), "Point"), "Point"),
        (lambda: rename_column(SCHEMA, ("id",), ""), "id"),
        (lambda: rename_column(SCHEMA, ("nobody",), "x"), "nobody"),
        (lambda: rename_column(SCHEMA, ("path", "x"), "z"), "path"),
        (lambda: drop_column(StructType((FRESH,)), ("fresh",)), "fresh"),
        (lambda: drop_column(SCHEMA, ("path", "element")), "path"),
        (lambda: change_column(SCHEMA, ("path", "element"), lambda field: field), "path.element"),
        (lambda: widen_column(SCHEMA, ("id",), INT), "id"),
        (lambda: widen_column(SCHEMA, ("point",), LONG), "point"),
    ],
)
def test_what_cannot_be_done_names_the_column(change: Callable[[], object], field: str) -> None:
    assert never(change).field == field


def test_paths_are_read_and_written_as_spark_does() -> None:
    assert parse_path("a.b") == ("a", "b")
    assert parse_path("`a.b`.c") == ("a.b", "c")
    assert parse_path("`a``b`") == ("a`b",)
    assert parse_path(["a.b", "c"]) == ("a.b", "c")
    assert path_text(("a.b", "c")) == "`a.b`.c"
    assert resolve(SCHEMA, ("POINT", "X")) == ("point", "x")
    for text in ("", ".", "a.", ".a", "a..b", "`a", "`a`b"):
        assert never(lambda text=text: parse_path(text)).field == "column"


@pytest.mark.parametrize(
    ("expression", "path", "found"),
    [
        ("id > 0", ("id",), True),
        ("ID > 0", ("id",), True),
        ("`id` > 0", ("id",), True),
        ("idea > 0 AND name = 'id'", ("id",), False),
        ('name = "id"', ("id",), False),
        ("name = 'it\\'s id' OR id IS NULL", ("id",), True),
        ("point.x > 0", ("point", "x"), True),
        ("point . x > 0", ("point", "x"), True),
        ("point.x > 0", ("point", "y"), False),
        ("point.x > 0", ("point",), True),
        ("to_json(point) <> ''", ("point", "y"), True),
        ("path[0].y > 1", ("path", "element", "x"), True),
        ("other.id > 1", ("id",), False),
        ("`a.b` > 1", ("a.b",), True),
        ("`a.b` > 1", ("a", "b"), False),
        ("1e5 > 2", ("e5",), False),
    ],
)
def test_what_an_expression_depends_on(expression: str, path: tuple[str, ...], found: bool) -> None:
    assert mentions(expression, path) is found
