"""The tree of a predicate, and its spelling.

There are few kinds of node, because the parser rewrites the rest: `BETWEEN`, `<>` and `<=>` become what they mean in
three-valued logic, and a literal is always a value that its column could hold. What can never be true but is unknown
for a null is spelled as Spark's optimizer spells it, `a IS NULL AND NULL`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from deltasql.protocol.predicate_literals import Value, spell
from deltasql.protocol.schema import DataType

Operator = Literal["=", "<", "<=", ">", ">="]

# Words that the parser takes for something else than a column.
KEYWORDS = frozenset({"and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "as"})
_PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class Column(msgspec.Struct, frozen=True):
    """A column by its path of names, spelled as the schema spells them."""

    path: tuple[str, ...]
    type: DataType


class Constant(msgspec.Struct, frozen=True):
    """TRUE, FALSE or NULL, whatever the row."""

    value: bool | None


class Comparison(msgspec.Struct, frozen=True):
    """A column against a value of its own type (a double where it is a float), or against another column."""

    column: Column
    operator: Operator
    operand: Value | Column


class In(msgspec.Struct, frozen=True):
    """A column among two or more values, none of them null."""

    column: Column
    values: tuple[Value, ...]


class Like(msgspec.Struct, frozen=True):
    """A string column against a pattern with at least one wildcard."""

    column: Column
    pattern: str


class IsNull(msgspec.Struct, frozen=True):
    column: Column


class And(msgspec.Struct, frozen=True):
    operands: tuple[Predicate, ...]


class Or(msgspec.Struct, frozen=True):
    operands: tuple[Predicate, ...]


class Not(msgspec.Struct, frozen=True):
    operand: Predicate


Predicate = Constant | Comparison | In | Like | IsNull | And | Or | Not


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """A conjunction, flat."""
    flat = [inner for part in parts for inner in (part.operands if isinstance(part, And) else (part,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """A disjunction, flat."""
    flat = [inner for part in parts for inner in (part.operands if isinstance(part, Or) else (part,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negation(part: Predicate) -> Predicate:
    return part.operand if isinstance(part, Not) else Not(part)


def columns(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """The path of every column the predicate looks at."""
    match predicate:
        case Constant():
            return frozenset()
        case And(operands) | Or(operands):
            return frozenset[tuple[str, ...]]().union(*map(columns, operands))
        case Not(operand):
            return columns(operand)
        case Comparison(column, _, Column() as other):
            return frozenset((column.path, other.path))
        case Comparison(column) | In(column) | Like(column) | IsNull(column):
            return frozenset((column.path,))


def to_sql(predicate: Predicate) -> str:
    """The predicate in Spark SQL. Parsing it gives the same tree again."""
    match predicate:
        case Constant(value):
            return "NULL" if value is None else spell(value)
        case And(operands):
            return " AND ".join(_enclosed(part) if isinstance(part, Or) else to_sql(part) for part in operands)
        case Or(operands):
            return " OR ".join(map(to_sql, operands))
        case Not(operand):
            return _negated(operand)
        case Comparison(column, operator, operand):
            return f"{_name(column)} {operator} {_side(operand)}"
        case In(column, values):
            return f"{_name(column)} IN ({', '.join(map(spell, values))})"
        case Like(column, pattern):
            return f"{_name(column)} LIKE {spell(pattern)}"
        case IsNull(column):
            return f"{_name(column)} IS NULL"


def _negated(operand: Predicate) -> str:
    match operand:
        case And() | Or():
            return f"NOT {_enclosed(operand)}"
        case Comparison(column, "=", other):
            return f"{_name(column)} <> {_side(other)}"
        case In(column, values):
            return f"{_name(column)} NOT IN ({', '.join(map(spell, values))})"
        case Like(column, pattern):
            return f"{_name(column)} NOT LIKE {spell(pattern)}"
        case IsNull(column):
            return f"{_name(column)} IS NOT NULL"
        case _:
            return f"NOT {to_sql(operand)}"


def _enclosed(predicate: Predicate) -> str:
    return f"({to_sql(predicate)})"


def _side(operand: Value | Column) -> str:
    return _name(operand) if isinstance(operand, Column) else spell(operand)


def _name(column: Column) -> str:
    return ".".join(map(quote_name, column.path))


def quote_name(name: str) -> str:
    """A column's name as SQL takes it, in back ticks where it must be."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"
