"""Numbers as Java spells them. The literals were printed by Java itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.protocol.numbers import java_double, java_float, single

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (123456.789, "123456.789"),
        (9999999.5, "9999999.5"),
        (1e6, "1000000.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (1e10, "1.0E10"),
        (1e21, "1.0E21"),
        (-1e-5, "-1.0E-5"),
        (5e-324, "4.9E-324"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1.1, "1.1"),
        (-0.0, "-0.0"),
        (1e10, "1.0E10"),
        (16777216.0, "1.6777216E7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (3.4028235e38, "3.4028235E38"),
        (1e-45, "1.4E-45"),
        (2e-44, "2.0E-44"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert java_float(single(value)) == text


@given(st.floats(allow_nan=False))
def test_a_double_reads_back_as_itself(value: float) -> None:
    read = float(java_double(value))
    assert read == value
    assert math.copysign(1, read) == math.copysign(1, value)


@given(st.floats(allow_nan=False, width=32))
def test_a_float_reads_back_as_itself(value: float) -> None:
    assert single(float(java_float(value))) == value


def test_a_number_past_the_range_of_a_float_is_refused() -> None:
    with pytest.raises(OverflowError):
        single(1e39)
