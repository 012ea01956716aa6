"""Generated columns: the expressions deltasql can work out, and their values.

    c   s.inner   CAST(c AS t)   DATE(c)   TO_DATE(c)   YEAR(c)   MONTH(c)   DAY(c)   DAYOFMONTH(c)   HOUR(c)

and one inside the other. Instants are taken in UTC, as everywhere in deltasql. Nothing else is guessed at: a column
that Spark generates by other means is left to Spark.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.predicate_literals import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGER_BITS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    sql_type,
    type_name,
)
from deltasql.protocol.schema import DataType, StructField, StructType

_TOKEN = re.compile(r"\s*(?:(\w+)|`((?:[^`]|``)+)`|([().]))")
_INSTANTS = (TIMESTAMP, TIMESTAMP_NTZ)
_PARTS: dict[str, tuple[Callable[[Any], Any], tuple[DataType, ...]]] = {
    "year": (pc.year, (DATE, *_INSTANTS)),
    "month": (pc.month, (DATE, *_INSTANTS)),
    "day": (pc.day, (DATE, *_INSTANTS)),
    "dayofmonth": (pc.day, (DATE, *_INSTANTS)),
    "hour": (pc.hour, _INSTANTS),
}
_TO_DATE = ("date", "to_date")


class _Step(NamedTuple):
    """One function, or, without one, a cast to its type."""

    type: DataType
    function: Callable[[Any], Any] | None = None


class Generation(NamedTuple):
    """A column, and what is done with it, innermost first."""

    path: tuple[str, ...]
    type: DataType
    steps: tuple[_Step, ...] = ()

    def then(self, kind: DataType, function: Callable[[Any], Any] | None = None) -> Generation:
        return Generation(self.path, kind, (*self.steps, _Step(kind, function)))

    def evaluate(self, rows: pa.Table) -> pa.ChunkedArray:
        name, *inner = self.path
        values = pc.struct_field(rows.column(name), inner) if inner else rows.column(name)
        for step in self.steps:
            values = (values if step.function is None else step.function(values)).cast(_arrow(step.type))
        return values


def parse_generation(text: str, schema: StructType) -> Generation:
    """The expression in `text` over columns of the schema; a `ValueError` says what is beyond deltasql."""
    parser = _Parser(text, schema)
    found = parser.expression()
    parser.end()
    return found


class _Parser:
    def __init__(self, text: str, schema: StructType) -> None:
        self._schema = schema
        self._tokens: list[tuple[str, bool]] = []
        place, text = 0, text.strip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise ValueError(f"{text[place : place + 20]!r} is not understood")
            word, name, symbol = match.groups()
            self._tokens.append((name.replace("``", "`"), True) if name else (word or symbol, bool(word)))
            place = match.end()
        self._place = 0

    def expression(self) -> Generation:
        if self._accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        name = self._name()
        if not self._accept("("):
            return self._column(name)
        operand = self.expression()
        if name.lower() == "cast":
            self._expect("as")
            kind = sql_type(self._name(), ())
            self._expect(")")
            return _cast(operand, kind)
        self._expect(")")
        return _call(name, operand)

    def end(self) -> None:
        if self._place < len(self._tokens):
            raise ValueError(f"{self._tokens[self._place][0]!r} is not expected there")

    def _column(self, name: str) -> Generation:
        kind: DataType = self._schema
        path: list[str] = []
        while True:
            field = kind.field(name) if isinstance(kind, StructType) else None
            if field is None:
                raise ValueError(f"there is no column {'.'.join([*path, name])}")
            path.append(field.name)
            kind = field.type
            if not self._accept("."):
                return Generation(tuple(path), kind)
            name = self._name()

    def _accept(self, word: str) -> bool:
        found = self._place < len(self._tokens) and self._tokens[self._place][0].lower() == word
        self._place += found
        return found

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise ValueError(f"{word!r} is missing")

    def _name(self) -> str:
        if self._place == len(self._tokens) or not self._tokens[self._place][1]:
            raise ValueError("a name is missing")
        self._place += 1
        return self._tokens[self._place - 1][0]


def _call(name: str, operand: Generation) -> Generation:
    if name.lower() in _TO_DATE:
        return _cast(operand, DATE)
    function, types = _PARTS.get(name.lower(), (None, ()))
    if function is None:
        raise ValueError(f"the function {name} is not known")
    if operand.type not in types:
        raise ValueError(f"{name} of a column of type {type_name(operand.type)}")
    return operand.then(INTEGER, function)


def _cast(operand: Generation, kind: DataType) -> Generation:
    """A cast that means the same to Spark and to Arrow."""
    if operand.type == kind:
        return operand
    bits = INTEGER_BITS.get(type_name(operand.type), 0)
    if (
        (bits and bits < INTEGER_BITS.get(type_name(kind), 0))
        or (kind == STRING and (bits or operand.type == DATE))
        or (kind == DATE and operand.type in _INSTANTS)
        or (operand.type, kind) == (FLOAT, DOUBLE)
    ):
        return operand.then(kind)
    raise ValueError(f"CAST from {type_name(operand.type)} to {type_name(kind)}")


def _arrow(kind: DataType) -> pa.DataType:
    return schema_to_arrow(StructType((StructField("value", kind),))).field(0).type
