"""Filters that Spark pushes, as predicates of ours. One that cannot be carried over exactly is passed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import datasource as spark

from deltasql.errors import PredicateError
from deltasql.protocol.predicate import Predicate, parse
from deltasql.protocol.predicate_literals import spell
from deltasql.protocol.predicate_tree import quote_name
from deltasql.protocol.schema import StructType


def to_predicate(item: spark.Filter, schema: StructType) -> Predicate | None:
    """The predicate a file must be able to satisfy, or None where it says nothing that can be used."""
    text = _spell(item)
    if text is None:
        return None
    try:
        return parse(text, schema)
    except PredicateError:
        # Files are then chosen without it; Spark filters the rows itself.
        return None


def _spell(item: spark.Filter) -> str | None:
    if isinstance(item, spark.Not):
        inner = _spell(item.child)
        return None if inner is None else f"NOT ({inner})"
    spelled = _SPELLINGS.get(type(item))
    return None if spelled is None else spelled(item)


def _name(path: tuple[str, ...]) -> str:
    return ".".join(quote_name(part) for part in path)


def _literal(value: Any) -> str | None:
    # Whatever the session's zone, Spark hands over an instant as UTC, and a time without a zone as it is.
    try:
        return "NULL" if value is None else spell(value)
    except (TypeError, ValueError, KeyError):
        return None


def _comparison(symbol: str) -> Callable[[Any], str | None]:
    def spelled(item: Any) -> str | None:
        literal = _literal(item.value)
        return None if literal is None else f"{_name(item.attribute)} {symbol} {literal}"

    return spelled


def _among(item: spark.In) -> str | None:
    literals = [_literal(value) for value in item.value]
    if not literals or None in literals:
        return None
    return f"{_name(item.attribute)} IN ({', '.join(text for text in literals if text)})"


def _starts_with(item: spark.StringStartsWith) -> str | None:
    # A backslash escapes what LIKE would take for a wildcard.
    pattern = "".join(f"\\{letter}" if letter in "\\%_" else letter for letter in item.value)
    literal = _literal(f"{pattern}%")
    return None if literal is None else f"{_name(item.attribute)} LIKE {literal}"


_SPELLINGS: dict[type[spark.Filter], Callable[[Any], str | None]] = {
    spark.EqualTo: _comparison("="),
    spark.EqualNullSafe: _comparison("<=>"),
    spark.GreaterThan: _comparison(">"),
    spark.GreaterThanOrEqual: _comparison(">="),
    spark.LessThan: _comparison("<"),
    spark.LessThanOrEqual: _comparison("<="),
    spark.In: _among,
    spark.IsNull: lambda item: f"{_name(item.attribute)} IS NULL",
    spark.IsNotNull: lambda item: f"{_name(item.attribute)} IS NOT NULL",
    spark.StringStartsWith: _starts_with,
}
