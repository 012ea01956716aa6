"""What a file's partition values and statistics say about a predicate, without opening the file.

Every predicate is given the set of outcomes (true, false, unknown) that a row of the file may have. The set may be
too large but never too small: a file without TRUE in it holds no match, and a file with nothing else matches whole.

Statistics are bounds, never values. Strings are cut to a prefix, timestamps to milliseconds; a maximum may leave NaN
out; after a deletion vector the bounds are those of all rows, deleted ones too. So `tight_bounds` is not needed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from deltasql.errors import SchemaError
from deltasql.protocol.actions import AddFile
from deltasql.protocol.like import is_prefix_pattern, like_matches, like_prefix
from deltasql.protocol.partitions import parse_partition_value
from deltasql.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Like, Not, Or, Predicate
from deltasql.protocol.predicate_compare import comparison_type, lift
from deltasql.protocol.predicate_literals import EXACT, INTEGER_BITS, Value, clean_float, to_float32, type_name
from deltasql.protocol.predicate_tree import Operator
from deltasql.protocol.schema import MAX_DECIMAL_PRECISION, DataType, DecimalType, StructField, StructType

JsonObject = Mapping[str, Any]

_TRUE, _FALSE, _UNKNOWN = 1, 2, 4
_ANY = _TRUE | _FALSE | _UNKNOWN

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CUT = timedelta(microseconds=999)
# Decimals of so many digits survive a writer that went through a double; the others may be off by its rounding.
_DOUBLE_DIGITS = 15
# The shortest spelling of a 32-bit number has no more digits than this.
_SINGLE_DIGITS = 9
_DOUBLE_ROUNDING = Decimal(2) ** -52

_STRING_PREFIX = 32
_GREATEST = "\U0010ffff"

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_STATS = msgspec.json.Decoder(float_hook=Decimal)


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a file: its partition values, typed, and its statistics as their JSON has them.

    A column that is missing anywhere is not known there. Names are those of the schema.
    """

    partition_values: Mapping[str, Value | None] = {}
    num_records: int | None = None
    min_values: JsonObject = {}
    max_values: JsonObject = {}
    null_count: JsonObject = {}
    tight_bounds: bool = True


class _Domain(NamedTuple):
    """What a column may hold in a file: values from `low` to `high` (None: unbounded), NaN, null."""

    low: Any = None
    high: Any = None
    values: bool = True
    nan: bool = False
    null: bool = True


def may_match(predicate: Predicate, facts: FileFacts) -> bool:
    """False only where no row of the file can satisfy the predicate."""
    return bool(_outcomes(predicate, facts) & _TRUE)


def matches_all(predicate: Predicate, facts: FileFacts) -> bool:
    """True only where every row of the file satisfies the predicate."""
    return _outcomes(predicate, facts) == _TRUE


def _outcomes(predicate: Predicate, facts: FileFacts) -> int:
    match predicate:
        case Comparison(column, operator, Column() as other):
            kind = cast("DataType", comparison_type(column.type, other.type))
            return _compare(_lifted(_domain(column, facts), kind), operator, _lifted(_domain(other, facts), kind))
        case Comparison(column, operator, value):
            return _compare(_domain(column, facts), operator, _exactly(cast("Value", value)))
        case Constant(value):
            return _UNKNOWN if value is None else _outcome(value)
        case And(operands):
            return _all([_outcomes(part, facts) for part in operands])
        case Or(operands):
            return _contrary(_all([_contrary(_outcomes(part, facts)) for part in operands]))
        case Not(operand):
            return _contrary(_outcomes(operand, facts))
        case IsNull(column):
            domain = _domain(column, facts)
            return _TRUE * domain.null | _FALSE * (domain.values or domain.nan)
        case In(column, values):
            return _among(_domain(column, facts), values)
        case Like(column, pattern):
            return _like(_domain(column, facts), pattern)


# -- three-valued logic over sets of outcomes


def _outcome(value: bool) -> int:
    return _TRUE if value else _FALSE


def _contrary(outcomes: int) -> int:
    return outcomes & _UNKNOWN | _TRUE * bool(outcomes & _FALSE) | _FALSE * bool(outcomes & _TRUE)


def _all(parts: Sequence[int]) -> int:
    """The outcomes of a conjunction: each part may have any of its own."""
    any_false = any(part & _FALSE for part in parts)
    all_true = all(part & _TRUE for part in parts)
    unknown = any(part & _UNKNOWN for part in parts) and all(part & (_TRUE | _UNKNOWN) for part in parts)
    return _TRUE * all_true | _FALSE * any_false | _UNKNOWN * unknown


# -- one column


def _compare(left: _Domain, operator: Operator, right: _Domain) -> int:
    match operator:
        case ">":
            return _contrary(_compare(left, "<=", right))
        case ">=":
            return _contrary(_compare(left, "<", right))
        case "=" | "<" | "<=":
            outcomes = _UNKNOWN * (left.null or right.null)
            if left.values and right.values:
                outcomes |= _compare_bounds(left, operator, right)
            # NaN is above every other number and equal to itself.
            if left.values and right.nan:
                outcomes |= _outcome(operator != "=")
            if left.nan and right.values:
                outcomes |= _FALSE
            if left.nan and right.nan:
                outcomes |= _outcome(operator != "<")
            return outcomes


def _compare_bounds(left: _Domain, operator: Operator, right: _Domain) -> int:
    match operator:
        case "=":
            apart = _below(left.high, right.low) or _below(right.high, left.low)
            same = left.low is not None and left.low == left.high == right.low == right.high
            return _TRUE * (not apart) | _FALSE * (not same)
        case "<":
            return _TRUE * (not _at_most(right.high, left.low)) | _FALSE * (not _below(left.high, right.low))
        case _:
            return _TRUE * (not _below(right.high, left.low)) | _FALSE * (not _at_most(left.high, right.low))


def _below(high: Any, low: Any) -> bool:
    """Is what ends at `high` surely below what begins at `low`?"""
    return high is not None and low is not None and high < low


def _at_most(high: Any, low: Any) -> bool:
    return high is not None and low is not None and high <= low


def _among(domain: _Domain, values: tuple[Value, ...]) -> int:
    outcomes = _UNKNOWN * domain.null
    if domain.values:
        low, high = domain.low, domain.high
        within = any((low is None or low <= value) and (high is None or value <= high) for value in values)
        same = low is not None and low == high and low in values
        outcomes |= _TRUE * within | _FALSE * (not same)
    if domain.nan:
        outcomes |= _outcome(any(value != value for value in values))
    return outcomes


def _like(domain: _Domain, pattern: str) -> int:
    outcomes = _UNKNOWN * domain.null
    if not domain.values:
        return outcomes
    low, high = cast("str | None", domain.low), cast("str | None", domain.high)
    if low is not None and low == high:
        return outcomes | _outcome(like_matches(pattern, low))
    prefix = like_prefix(pattern)
    size = len(prefix)
    if (high is not None and high < prefix) or (low is not None and low[:size] > prefix):
        return outcomes | _FALSE
    bounded = all(bound is not None and bound.startswith(prefix) for bound in (low, high))
    if is_prefix_pattern(pattern) and (bounded or not prefix):
        return outcomes | _TRUE
    return outcomes | _TRUE | _FALSE


# -- from facts to domains


def _exactly(value: Value | None) -> _Domain:
    if value is None:
        return _Domain(values=False)
    if isinstance(value, float) and math.isnan(value):
        return _Domain(values=False, nan=True, null=False)
    return _Domain(value, value, null=False)


def _domain(column: Column, facts: FileFacts) -> _Domain:
    name, *inner = column.path
    if not inner and name in facts.partition_values:
        return _exactly(facts.partition_values[name])
    nulls, records = value_at(facts.null_count, column.path), facts.num_records
    nan = type_name(column.type) in {"float", "double"}
    if _is_whole(nulls) and nulls == records and records:
        return _Domain(values=False)
    low = bound(value_at(facts.min_values, column.path), column.type, lower=True)
    high = bound(value_at(facts.max_values, column.path), column.type, lower=False)
    if low is not None and high is not None and low > high:
        low = high = None
    return _Domain(low, high, nan=nan, null=not (_is_whole(nulls) and nulls == 0))


def _lifted(domain: _Domain, kind: DataType) -> _Domain:
    low, high = (None if bound is None else lift(bound, kind) for bound in (domain.low, domain.high))
    return domain._replace(low=low, high=high)


def value_at(values: object, path: Sequence[str]) -> object:
    for name in path:
        values = cast("JsonObject", values).get(name) if isinstance(values, Mapping) else None
    return values


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def bound(raw: object, kind: DataType, *, lower: bool) -> Any:
    """A minimum or maximum as a bound on the real values; None where it says nothing that can be trusted."""
    try:
        if isinstance(raw, str):
            return _text_bound(raw, type_name(kind), lower=lower)
        if isinstance(raw, bool):
            return raw if type_name(kind) == "boolean" else None
        return _number_bound(raw, kind, lower=lower) if isinstance(raw, int | float | Decimal) else None
    except (ValueError, OverflowError):
        return None


def _text_bound(text: str, kind: str, *, lower: bool) -> str | date | None:
    if kind == "string":
        return text if lower else _string_maximum(text)
    if kind == "date":
        return date.fromisoformat(text)
    if kind not in {"timestamp", "timestamp_ntz"}:
        return None
    moment = datetime.fromisoformat(text)
    if (moment.tzinfo is not None) != (kind == "timestamp"):
        return None
    instant = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not lower:
        instant += _CUT
    elif instant < _EPOCH:
        # Some writers cut towards 1970.
        instant -= _CUT
    return instant if kind == "timestamp" else instant.replace(tzinfo=None)


def _string_maximum(text: str) -> str | None:
    # Older writers end a cut maximum with this character, and some characters are above it.
    if text.endswith("\ufffd"):
        return None
    # A careless writer may have cut here and not made up for it.
    return text + _GREATEST if len(text) >= _STRING_PREFIX else text


def _number_bound(number: int | float | Decimal, kind: DataType, *, lower: bool) -> int | float | Decimal | None:
    name = type_name(kind)
    if name in INTEGER_BITS:
        return number if isinstance(number, int) else None
    if name in {"float", "double"}:
        # The shortest spelling of a 32-bit number is not that number as a double.
        near = to_float32(float(number)) if name == "float" else clean_float(float(number))
        if name == "double" and len(Decimal(number).as_tuple().digits) <= _SINGLE_DIGITS:
            # It may be the spelling of one all the same: the column was a float when the file was written.
            single = to_float32(near)
            near = near if math.isinf(single) else min(near, single) if lower else max(near, single)
        return near if math.isfinite(near) else None
    if not isinstance(kind, DecimalType):
        return None
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite() or exact.adjusted() > MAX_DECIMAL_PRECISION:
        return None
    if kind.precision <= _DOUBLE_DIGITS:
        return exact
    margin = EXACT.multiply(exact.copy_abs(), _DOUBLE_ROUNDING)
    return EXACT.subtract(exact, margin) if lower else EXACT.add(exact, margin)


# -- from actions to facts


def facts_from(add: AddFile, schema: StructType, partition_columns: Iterable[str]) -> FileFacts:
    """The facts of a file. Statistics and partition values that cannot be read are facts that are not known."""
    stats = read_stats(add.stats)
    records = stats.get("numRecords")
    return FileFacts(
        partition_values=_partition_values(add, schema, partition_columns),
        num_records=records if _is_whole(records) and records >= 0 else None,
        min_values=_logical(stats.get("minValues"), schema),
        max_values=_logical(stats.get("maxValues"), schema),
        null_count=_logical(stats.get("nullCount"), schema),
        tight_bounds=stats.get("tightBounds") is not False,
    )


def read_stats(text: str | None) -> JsonObject:
    try:
        stats = _STATS.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeError, ArithmeticError, RecursionError):
        return {}
    return cast("JsonObject", stats) if isinstance(stats, dict) else {}


def _partition_values(add: AddFile, schema: StructType, names: Iterable[str]) -> dict[str, Value | None]:
    values: dict[str, Value | None] = {}
    for name in names:
        field = schema.field(name)
        if field is None or _physical(field) not in add.partition_values:
            continue
        try:
            value = parse_partition_value(add.partition_values[_physical(field)], field.type)
        except SchemaError:
            continue
        values[field.name] = cast("Value | None", value)
    return values


def _physical(field: StructField) -> str:
    """The name that files and actions use for a column."""
    return field.metadata.get(_PHYSICAL_NAME, field.name)


def _logical(values: object, schema: StructType) -> JsonObject:
    """Statistics by the schema's own names. A table maps the names of all its columns or of none."""
    if not isinstance(values, dict):
        return {}
    found = cast("JsonObject", values)
    if not any(_PHYSICAL_NAME in field.metadata for field in schema.fields[:1]):
        return found
    return {
        field.name: _logical(value, field.type) if isinstance(field.type, StructType) else value
        for field in schema.fields
        if (value := found.get(_physical(field))) is not None
    }
