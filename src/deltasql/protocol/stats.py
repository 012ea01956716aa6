"""Statistics of a data file: how many rows, and for each indexed column its bounds and how many nulls.

The text is the one Delta Spark writes for the same rows, with one difference: a bound that JSON cannot hold, or that
readers would take differently, is left out. A missing bound only costs a reader some skipping; a wrong one costs rows.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.numbers import java_double, java_float
from deltasql.protocol.schema import DataType, DecimalType, PrimitiveType, StructType

INDEXED_COLUMNS = 32
STRING_PREFIX = 32

_Leaf = tuple[tuple[str, ...], DataType, pa.ChunkedArray]
_Tree = dict[str, Any]
_Bounds = tuple[object, object]


def collect_stats(
    data: pa.Table,
    schema: StructType,
    *,
    indexed: int = INDEXED_COLUMNS,
    columns: Sequence[str] | None = None,
    tight: bool | None = None,
) -> str:
    """The `stats` of a file that holds these rows, which are as `conform` gives them.

    The first `indexed` leaf columns count (all where it is negative), or those that `columns` names, by themselves or
    by a struct they are in. Columns of the schema that are not in the data, such as partition columns, are passed
    over. `tight` is written only where it is given: tables with deletion vectors want it.
    """
    minimum, maximum, nulls = _Tree(), _Tree(), _Tree()
    eligible = False
    for path, kind, column in _chosen(data, schema, indexed, columns):
        _branch(nulls, path)[path[-1]] = column.null_count
        if bounds := _BOUNDS.get(kind.name) if isinstance(kind, PrimitiveType) else _decimal_bounds(kind):
            eligible = True
            for tree, bound in zip((minimum, maximum), bounds(column), strict=True):
                branch = _branch(tree, path)
                if bound is not None:
                    branch[path[-1]] = bound
    stats: _Tree = {"numRecords": data.num_rows}
    if eligible:
        stats |= {"minValues": minimum, "maxValues": maximum}
    if nulls:
        stats["nullCount"] = nulls
    if tight is not None:
        stats["tightBounds"] = tight
    return dump_json(stats).decode()


def cut_minimum(text: str) -> str:
    """A lower bound of at most 32 characters."""
    return text[:STRING_PREFIX]


def cut_maximum(text: str) -> str | None:
    """An upper bound of about 32 characters, or None where there is no short one.

    Delta Spark counts UTF-16 units here. What is cut off is made up for by a last character that no character after
    the cut exceeds; where the next one is already the greatest, the cut moves on, up to twice the length.
    """
    units, end = 0, 0
    for character in text:
        if units >= STRING_PREFIX:
            break
        units += _units(character)
        end += 1
    while units <= 2 * STRING_PREFIX:
        if end == len(text):
            return text
        if text[end] != _GREATEST:
            return text[:end] + (_GREATEST_ASCII if text[end] < _GREATEST_ASCII else _GREATEST)
        units += _units(_GREATEST)
        end += 1
    return None


_GREATEST_ASCII = "\x7f"
_GREATEST = "\U0010ffff"


def _units(character: str) -> int:
    return 2 if character > "\uffff" else 1


# -- which columns --------------------------------------------------------------------------------------------------


def _chosen(data: pa.Table, schema: StructType, indexed: int, columns: Sequence[str] | None) -> Iterable[_Leaf]:
    found = _leaf_columns(dict(zip(data.column_names, data.columns, strict=True)), schema, ())
    if columns is not None:
        wanted = {name.replace("`", "").casefold() for name in columns}
        return (leaf for leaf in found if not wanted.isdisjoint(_names(leaf[0])))
    return found if indexed < 0 else islice(found, indexed)


def _names(path: tuple[str, ...]) -> Iterator[str]:
    """The names that choose a leaf: its own and those of the structs around it."""
    return (".".join(path[:depth]).casefold() for depth in range(1, len(path) + 1))


def _leaf_columns(
    columns: Mapping[str, pa.ChunkedArray], schema: StructType, parents: tuple[str, ...]
) -> Iterator[_Leaf]:
    for field in schema.fields:
        column = columns.get(field.name)
        if column is None:
            continue
        path = (*parents, field.name)
        if isinstance(field.type, StructType):
            # Flattening makes a field null wherever its struct is.
            inner = zip((child.name for child in column.type), column.flatten(), strict=True)
            yield from _leaf_columns(dict(inner), field.type, path)
        else:
            yield path, field.type, column


def _branch(tree: _Tree, path: tuple[str, ...]) -> _Tree:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    return tree


# -- bounds: the smallest and the greatest value as JSON holds them; None where there is none or it is not said -------


def _min_max(column: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
    found = pc.min_max(column)
    return found["min"], found["max"]


def _integer_bounds(column: pa.ChunkedArray) -> _Bounds:
    low, high = _min_max(column)
    return low.as_py(), high.as_py()


def _string_bounds(column: pa.ChunkedArray) -> _Bounds:
    low, high = (bound.as_py() for bound in _min_max(column))
    return (None, None) if low is None else (cut_minimum(low), cut_maximum(high))


def _decimal_bounds(kind: DataType) -> Callable[[pa.ChunkedArray], _Bounds] | None:
    def bounds(column: pa.ChunkedArray) -> _Bounds:
        low, high = (bound.as_py() for bound in _min_max(column))
        # Python spells a decimal as Java does.
        return (None, None) if low is None else (orjson.Fragment(str(low)), orjson.Fragment(str(high)))

    return bounds if isinstance(kind, DecimalType) else None


def _float_bounds(spell: Callable[[float], str]) -> Callable[[pa.ChunkedArray], _Bounds]:
    def bounds(column: pa.ChunkedArray) -> _Bounds:
        low, high = (bound.as_py() for bound in _min_max(column))
        # Readers do not agree where NaN sorts, so no bound is safe beside one.
        if low is None or pc.any(pc.is_nan(column)).as_py():
            return None, None
        if low == 0 or high == 0:
            # Some readers sort -0.0 below 0.0. The reciprocal of a zero shows its sign.
            signs = pc.min_max(pc.divide(pa.scalar(1, column.type), column.filter(pc.equal(column, 0))))
            low = math.copysign(low, signs["min"].as_py()) if low == 0 else low
            high = math.copysign(high, signs["max"].as_py()) if high == 0 else high
        lower, upper = (None if math.isinf(bound) else orjson.Fragment(spell(bound)) for bound in (low, high))
        return lower, upper

    return bounds


def _time_bounds(spell: Callable[[int], str]) -> Callable[[pa.ChunkedArray], _Bounds]:
    def say(bound: pa.Scalar) -> str | None:
        try:
            return spell(bound.value) if bound.is_valid else None
        except (OverflowError, ValueError):
            # Outside the years 1 to 9999, which not every reader parses.
            return None

    def bounds(column: pa.ChunkedArray) -> _Bounds:
        low, high = _min_max(column)
        return say(low), say(high)

    return bounds


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _spell_date(days: int) -> str:
    return date.fromordinal(_EPOCH.toordinal() + days).isoformat()


def _spell_timestamp_ntz(microseconds: int) -> str:
    """Cut down to milliseconds, as the protocol says; readers add one to a maximum."""
    instant = _EPOCH + timedelta(milliseconds=microseconds // 1000)
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _spell_timestamp(microseconds: int) -> str:
    return f"{_spell_timestamp_ntz(microseconds)}Z"


# Delta Spark keeps no bounds for booleans, binary and nested types.
_BOUNDS: dict[str, Callable[[pa.ChunkedArray], _Bounds]] = {
    "byte": _integer_bounds,
    "short": _integer_bounds,
    "integer": _integer_bounds,
    "long": _integer_bounds,
    "float": _float_bounds(java_float),
    "double": _float_bounds(java_double),
    "string": _string_bounds,
    "date": _time_bounds(_spell_date),
    "timestamp": _time_bounds(_spell_timestamp),
    "timestamp_ntz": _time_bounds(_spell_timestamp_ntz),
}
