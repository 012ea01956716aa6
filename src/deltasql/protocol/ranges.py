"""What a predicate says about single columns: outside of which values no row can satisfy it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from deltasql.protocol.like import like_prefix
from deltasql.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Like, Not, Or, Predicate
from deltasql.protocol.predicate_literals import type_name
from deltasql.protocol.predicate_tree import Operator

_FLOATS = frozenset({"float", "double"})
_GREATEST = "\U0010ffff"
_CONTRARY: dict[Operator, Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

Path = tuple[str, ...]


class Range(msgspec.Struct, frozen=True):
    """Every row that satisfies the predicate has a value from `low` to `high` (None: no bound), or, with `nan`, NaN."""

    low: Any = None
    high: Any = None
    nan: bool = False

    def meet(self, other: Range) -> Range:
        return Range(_max(self.low, other.low), _min(self.high, other.high), self.nan and other.nan)

    def hull(self, other: Range) -> Range:
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Range(low, high, self.nan or other.nan)


Ranges = Mapping[Path, Range]


def ranges(predicate: Predicate) -> Ranges | None:
    """The range of each column that has one; None where no row can satisfy the predicate.

    They are necessary, not sufficient: a row inside of all of them may still not match.
    """
    match predicate:
        case Constant(value):
            return {} if value else None
        case And(operands):
            return _meet([ranges(part) for part in operands])
        case Or(operands):
            return _hull([ranges(part) for part in operands])
        case Comparison(_, _, Column()):
            return {}
        case Comparison(column, operator, value):
            return {column.path: _compared(column, operator, value)}
        case In(column, values):
            numbers = [value for value in values if value == value]
            nan = len(numbers) < len(values)
            return {column.path: Range(min(numbers), max(numbers), nan) if numbers else Range(nan=True)}
        case Like(column, pattern):
            prefix = like_prefix(pattern)
            return {column.path: Range(prefix, prefix + _GREATEST)} if prefix else {}
        case Not(Comparison(column, operator, value)) if operator in _CONTRARY and not isinstance(value, Column):
            return {column.path: _compared(column, _CONTRARY[operator], value)}
        case Not() | IsNull():
            return {}


def _compared(column: Column, operator: Operator, value: Any) -> Range:
    floating = type_name(column.type) in _FLOATS
    if value != value:
        # NaN equals itself and is above every number.
        return Range(nan=operator != "<")
    match operator:
        case "=":
            return Range(value, value)
        case "<" | "<=":
            return Range(None, value)
        case _:
            return Range(value, None, nan=floating)


def _meet(parts: list[Ranges | None]) -> Ranges | None:
    met: dict[Path, Range] = {}
    for part in parts:
        if part is None:
            return None
        for path, found in part.items():
            met[path] = met[path].meet(found) if path in met else found
    return met


def _hull(parts: list[Ranges | None]) -> Ranges | None:
    possible = [part for part in parts if part is not None]
    if not possible:
        return None
    first, *others = possible
    hull: dict[Path, Range] = {}
    for path, found in first.items():
        if all(path in other for other in others):
            for other in others:
                found = found.hull(other[path])
            hull[path] = found
    return hull


def _max(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else max(left, right)


def _min(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else min(left, right)
