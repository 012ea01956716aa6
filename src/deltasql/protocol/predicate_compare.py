"""Comparisons as the tree keeps them: column first, and the literal a value that the column could hold.

Comparing a number with an exact column is exact: `id < 2.5` on whole numbers is `id <= 2`, and what lies outside the
column's range decides the comparison for every row that is not null. A `ValueError` says why two sides do not meet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import cast

from deltasql.protocol.like import Wildcard, like_matches, like_parts, like_prefix
from deltasql.protocol.predicate_literals import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    INTEGER_BITS,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Literal,
    Value,
    clean_float,
    exact_number,
    integer_range,
    is_numeric,
    naive,
    parse_text,
    type_name,
)
from deltasql.protocol.predicate_tree import (
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Operator,
    Predicate,
    all_of,
    any_of,
    negation,
)
from deltasql.protocol.schema import DataType, DecimalType, PrimitiveType

Operand = Column | Literal

_FLIPPED: dict[Operator, Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEMPORAL = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def compare(left: Operand, symbol: str, right: Operand) -> Predicate:
    """The meaning of `left symbol right`, for every comparison sign of Spark SQL."""
    match symbol:
        case "<>" | "!=":
            return negation(compare(left, "=", right))
        case "<=>":
            return _null_safe(left, right)
        case "==":
            return compare(left, "=", right)
        case _:
            return _compare(left, cast("Operator", symbol), right)


def is_null(operand: Operand) -> Predicate:
    return IsNull(operand) if isinstance(operand, Column) else Constant(operand.value is None)


def among(operand: Operand, items: Sequence[Operand]) -> Predicate:
    """`operand IN (items)`."""
    parts = [compare(operand, "=", item) for item in items]
    if not isinstance(operand, Column):
        return any_of(parts)
    values: dict[Value, None] = {}
    others: dict[Predicate, None] = {}
    for part in parts:
        if isinstance(part, Comparison) and not isinstance(part.operand, Column):
            values[part.operand] = None
        elif part != _never(operand):
            others[part] = None
    if len(values) > 1:
        return any_of([In(operand, tuple(values)), *others])
    return any_of([*(Comparison(operand, "=", value) for value in values), *others] or [_never(operand)])


def like(operand: Operand, pattern: Operand) -> Predicate:
    if isinstance(pattern, Column):
        raise ValueError("the pattern of LIKE must be a literal")
    for side in (operand, pattern):
        if side.type != STRING and not (isinstance(side, Literal) and side.value is None):
            raise ValueError(f"LIKE compares strings, not {type_name(side.type)}")
    if pattern.value is None:
        return Constant(None)
    text = cast("str", pattern.value)
    parts = like_parts(text)
    if isinstance(operand, Literal):
        return Constant(None if operand.value is None else like_matches(text, cast("str", operand.value)))
    if any(isinstance(part, Wildcard) for part in parts):
        return Like(operand, text)
    return Comparison(operand, "=", like_prefix(text))


def truth(node: Predicate | Operand) -> Predicate:
    """A node where a condition is wanted: a boolean column stands for itself being true."""
    match node:
        case Column(type=kind):
            if kind != BOOLEAN:
                raise ValueError(f"a column of type {type_name(kind)} is not a condition")
            return Comparison(node, "=", True)
        case Literal(value):
            if value is not None and not isinstance(value, bool):
                raise ValueError(f"a literal of type {type_name(node.type)} is not a condition")
            return Constant(value)
        case _:
            return node


def cast_column(column: Column, kind: DataType) -> Column:
    """CAST of a column, where it changes no value and so may be left out."""
    bits = INTEGER_BITS.get(type_name(column.type), 0)
    wider = bits and bits <= INTEGER_BITS.get(type_name(kind), 0)
    if column.type == kind or wider or (type_name(column.type), kind) == ("float", DOUBLE):
        return column
    raise ValueError(f"CAST of a column from {type_name(column.type)} to {type_name(kind)} is not supported")


def comparison_type(left: DataType, right: DataType) -> DataType | None:
    """The type in which two columns are compared; None where they cannot be."""
    if is_numeric(left) and is_numeric(right):
        names = {type_name(left), type_name(right)}
        if names & {"float", "double"}:
            return DOUBLE
        if left == right:
            return left
        scales = [kind.scale for kind in (left, right) if isinstance(kind, DecimalType)]
        # Past the precision of any column: enough for all digits of both.
        return DecimalType(76, max(scales)) if scales else LONG
    if left == right and left in (BOOLEAN, STRING, BINARY, *_TEMPORAL):
        return left
    return TIMESTAMP_NTZ if left in _TEMPORAL and right in _TEMPORAL else None


def lift(value: Value, kind: DataType) -> Value:
    """A value in the type in which it is compared."""
    if kind == DOUBLE:
        return clean_float(float(cast("float", value)))
    return naive(value) if kind == TIMESTAMP_NTZ and isinstance(value, date) else value


def _compare(left: Operand, operator: Operator, right: Operand) -> Predicate:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Constant(_fold(left, operator, right))
    if isinstance(left, Literal):
        left, right, operator = right, left, _FLIPPED[operator]
    column = cast("Column", left)
    if comparison_type(column.type, column.type) is None:
        raise ValueError(f"a column of type {type_name(column.type)} can only be asked for IS NULL")
    if isinstance(right, Column):
        if comparison_type(column.type, right.type) is None:
            raise _mismatch(column.type, right.type)
        return Comparison(column, operator, right)
    if right.value is None:
        return Constant(None)
    value = _coerce(right, column.type)
    if isinstance(column.type, DecimalType) or type_name(column.type) in INTEGER_BITS:
        return _exact(column, operator, cast("int | float | Decimal", value))
    if column.type == DATE and isinstance(value, datetime):
        return _floored(column, operator, value.date(), whole=value.time() == datetime.min.time())
    return Comparison(column, operator, value)


def _null_safe(left: Operand, right: Operand) -> Predicate:
    """`left <=> right`: true where both are null, false where one is, never unknown."""
    match left, right:
        case Literal(), Literal():
            if left.value is None or right.value is None:
                return Constant(left.value is right.value)
            return _compare(left, "=", right)
        case Literal(), Column():
            return _null_safe(right, left)
        case Column(), Literal(value=None):
            return IsNull(left)
        case Column(), Literal():
            return all_of([negation(IsNull(left)), _compare(left, "=", right)])
        case Column(), Column():
            known = [negation(IsNull(left)), negation(IsNull(right))]
            return any_of([all_of([IsNull(left), IsNull(right)]), all_of([*known, _compare(left, "=", right)])])


def _fold(left: Literal, operator: Operator, right: Literal) -> bool | None:
    """A comparison of two literals."""
    if left.value is None or right.value is None:
        return None
    if isinstance(left.value, str) and not isinstance(right.value, str):
        left, right, operator = right, left, _FLIPPED[operator]
    kind = DOUBLE if comparison_type(left.type, right.type) == DOUBLE else left.type
    first, second = lift(_coerce(left, kind), TIMESTAMP_NTZ), lift(_coerce(right, kind), TIMESTAMP_NTZ)
    order = _above(first, second) - _above(second, first)
    return {"=": order == 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]


def _above(first: Value, second: Value) -> bool:
    """Whether the first is greater in Spark's order, in which NaN is greater than every other number."""
    if isinstance(first, float) and math.isnan(first):
        return not (isinstance(second, float) and math.isnan(second))
    return cast("float", first) > cast("float", second)


def _coerce(literal: Literal, kind: DataType) -> Value:
    """The literal as Spark would convert it to compare it with that type; numbers are not yet fitted to it."""
    value = literal.value
    if isinstance(value, str):
        return _coerce_text(value, kind)
    match kind, value:
        case PrimitiveType("float" | "double"), int() | float() | Decimal() if not isinstance(value, bool):
            return clean_float(float(value))
        case _, int() | float() | Decimal() if is_numeric(kind) and not isinstance(value, bool):
            return exact_number(value)
        case (PrimitiveType("boolean"), bool()) | (PrimitiveType("binary"), bytes()):
            return value
        case PrimitiveType("date"), date():
            return naive(value) if isinstance(value, datetime) else value
        case PrimitiveType("timestamp"), date():
            return naive(value).replace(tzinfo=UTC)
        case PrimitiveType("timestamp_ntz"), date():
            return naive(value)
        case _:
            raise _mismatch(kind, literal.type)


def _coerce_text(text: str, kind: DataType) -> Value:
    if isinstance(kind, DecimalType):
        return parse_text(text, kind)
    if type_name(kind) in INTEGER_BITS:
        return parse_text(text, LONG)
    return parse_text(text, DOUBLE if type_name(kind) == "float" else kind)


def _mismatch(left: DataType, right: DataType) -> ValueError:
    return ValueError(f"{type_name(left)} and {type_name(right)} cannot be compared")


def _exact(column: Column, operator: Operator, value: int | float | Decimal) -> Predicate:
    """A comparison of an exact column with any number: only a value that the column could hold stays in the tree."""
    if isinstance(value, float):
        return _beyond(column, operator, above=value > 0)
    scale = column.type.scale if isinstance(column.type, DecimalType) else 0
    scaled = EXACT.scaleb(Decimal(value), scale)
    floor = scaled.to_integral_value(ROUND_FLOOR)
    low, high = _unscaled_range(column.type)
    if not low <= floor <= high:
        return _beyond(column, operator, above=floor > high)
    whole = int(floor)
    kept = EXACT.scaleb(Decimal(whole), -scale) if isinstance(column.type, DecimalType) else whole
    return _floored(column, operator, kept, whole=whole == scaled)


def _unscaled_range(kind: DataType) -> tuple[int, int]:
    if isinstance(kind, DecimalType):
        limit = 10**kind.precision - 1
        return -limit, limit
    return integer_range(type_name(kind))


def _floored(column: Column, operator: Operator, floor: Value, *, whole: bool) -> Predicate:
    """A comparison with the value that was cut down to `floor`, unless it was whole to begin with."""
    if whole:
        return Comparison(column, operator, floor)
    match operator:
        case "=":
            return _never(column)
        case "<" | "<=":
            return Comparison(column, "<=", floor)
        case ">" | ">=":
            return Comparison(column, ">", floor)


def _beyond(column: Column, operator: Operator, *, above: bool) -> Predicate:
    """A comparison with a number above, or below, everything the column can hold."""
    return _always(column) if operator in (("<", "<=") if above else (">", ">=")) else _never(column)


def _never(column: Column) -> Predicate:
    """False, or unknown where the column is null."""
    return all_of([IsNull(column), Constant(None)])


def _always(column: Column) -> Predicate:
    """True, or unknown where the column is null."""
    return any_of([negation(IsNull(column)), Constant(None)])
