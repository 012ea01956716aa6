"""Floating-point numbers as Java spells them, because statistics and partition values are text that Java wrote.

The digits are the fewest that name the number, as Java gives them since release 19; older ones sometimes print
more. Both read back as the same number.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import cast

import pyarrow as pa

# Java writes 0.001 up to 9999999 without an exponent: the first digit then stands this far from the point.
_PLAIN = range(-2, 8)


def java_double(value: float) -> str:
    """`Double.toString`: 1.0, 1.0E10, 1.0E-5, -0.0, NaN, Infinity."""
    return _spell(value, repr, float)


def java_float(value: float) -> str:
    """`Float.toString` of a number that a 32-bit float holds exactly."""
    return _spell(value, _shortest_single, lambda text: single(float(text)))


def single(value: float) -> float:
    """The nearest number that a 32-bit float holds; `OverflowError` past its range."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _shortest_single(value: float) -> str:
    return cast("str", pa.scalar(value, pa.float32()).cast(pa.string()).as_py())


def _spell(value: float, shortest: Callable[[float], str], read: Callable[[str], float]) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    value = abs(value)
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(shortest(value))
    # Java always shows two digits, and then the two nearest to the number: 4.9E-324 where one would be 5E-324.
    if len(digits) == 1 and read(two := f"{value:.1e}") == value:
        digits, point = _digits(two)
    if point not in _PLAIN:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def _digits(text: str) -> tuple[str, int]:
    """The significant digits of a number and where the decimal point stands, counted from before the first digit."""
    _, digits, exponent = Decimal(text).normalize().as_tuple()
    return "".join(map(str, digits)), len(digits) + cast("int", exponent)
