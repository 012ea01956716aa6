"""Values of a column as 64-bit numbers that keep their order, so that one kind of index serves all types.

The way there may make unequal values equal (a string is its first eight bytes), never turn two round. So whatever
overlaps as values overlaps as keys.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import msgspec

from deltasql.protocol.predicate_literals import EXACT, INTEGER_BITS, type_name
from deltasql.protocol.schema import DataType, DecimalType
from deltasql.protocol.skipping import JsonObject, bound, value_at

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# Files are sorted by the width of their range, a byte a class: an index of one class can be entered from both sides.
CLASSES = 9

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)


class Keys(msgspec.Struct, frozen=True):
    """The range of a file as keys. `width` is its class."""

    width: int
    low: int
    high: int


# No row of the file has a value at all.
EMPTY = Keys(0, HIGHEST, LOWEST)


def kind_of(type_: DataType) -> str | None:
    """Which keys a type has. Types of one kind share their keys; None where there are none."""
    if isinstance(type_, DecimalType):
        return f"decimal({type_.scale})"
    name = type_name(type_)
    if name in INTEGER_BITS:
        return "integer"
    if name in {"float", "double"}:
        return "double"
    return name if name in {"date", "timestamp", "timestamp_ntz", "string", "boolean"} else None


def key_of(value: Any, kind: str) -> int:
    """The key of one value."""
    match kind:
        case "integer" | "boolean":
            return int(value)
        case "date":
            return (value - _EPOCH_DAY).days
        case "timestamp" | "timestamp_ntz":
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            since = moment - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case "double":
            (bits,) = struct.unpack(">q", struct.pack(">d", value))
            return bits if bits >= 0 else LOWEST - 1 - bits
        case "string":
            first = value.encode("utf-8", "surrogatepass")[:8]
            return int.from_bytes(first.ljust(8, b"\0"), "big") + LOWEST
        case _:
            scaled = Decimal(value).scaleb(int(kind[8:-1]), EXACT).to_integral_value(ROUND_FLOOR)
            return max(LOWEST, min(HIGHEST, int(scaled)))


def file_keys(stats: JsonObject, path: tuple[str, ...], type_: DataType) -> Keys | None:
    """The range of a column in a file, from its statistics; None where they do not bound it."""
    kind = kind_of(type_)
    if kind is None:
        return None
    records, nulls = stats.get("numRecords"), value_at(stats.get("nullCount"), path)
    if type(records) is int and type(nulls) is int and records == nulls and records > 0:
        return EMPTY
    low = bound(value_at(stats.get("minValues"), path), type_, lower=True)
    high = bound(value_at(stats.get("maxValues"), path), type_, lower=False)
    if low is None or high is None or low > high:
        return None
    return keys_between(key_of(low, kind), key_of(high, kind))


def keys_between(low: int, high: int) -> Keys:
    return Keys(-(-(high - low).bit_length() // 8), low, high)


def reach(width: int, high: int) -> int:
    """The highest key that a file of this class can end at, if it begins at or below `high`."""
    return min(HIGHEST, high + 2 ** (8 * width))
