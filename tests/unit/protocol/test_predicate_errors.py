"""Predicates that are refused: the error says what is wrong, where, and what to do."""

from __future__ import annotations

import pytest

from deltasql.errors import PredicateError
from deltasql.protocol.predicate import Predicate, parse
from predicate_samples import SCHEMA, struct

pytestmark = pytest.mark.unit


def read(text: str) -> Predicate:
    return parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 1, "expected a column or a literal, found the end"),
        ("id <", 5, "expected a column or a literal, found the end"),
        ("id = 1 OR", 10, "expected a column or a literal, found the end"),
        ("id = 1 2", 8, "expected AND, OR or the end, found 2"),
        ("id = 1 = 2", 8, "expected AND, OR or the end, found ="),
        ("1 + 1", 3, "expected AND, OR or the end, found +"),
        ("(id = 1", 8, "expected ), found the end"),
        ("id = 1)", 7, "expected AND, OR or the end, found )"),
        ("id IN ()", 8, "expected a column or a literal, found )"),
        ("id IN 1", 7, "expected (, found 1"),
        ("id IS 5", 7, "expected NULL, found 5"),
        ("id NOT 5", 8, "expected IN, BETWEEN or LIKE, found 5"),
        ("id NOT = 5", 8, "expected IN, BETWEEN or LIKE, found ="),
        ("id BETWEEN 1 OR 2", 14, "expected AND, found OR"),
        ("id = -x", 7, "expected a number after the sign, found x"),
        ("id ~ 1", 4, "the character '~' is not expected here"),
        ("id =   'abc", 8, "what ' opens is never closed"),
        ("`id = 1", 1, "what ` opens is never closed"),
        ("and = 1", 1, "expected a column or a literal, found and"),
        ("foo = 1", 1, "there is no column foo"),
        ("b AND st.foo = 1", 7, "there is no column st.foo"),
        ("id.u = 1", 1, "there is no column id.u"),
        ("arr.element = 1", 1, "there is no column arr.element"),
        ("upper(name) = 'X'", 1, "functions such as upper are not supported"),
        ("id", 1, "a column of type long is not a condition"),
        ("b AND id", 7, "a column of type long is not a condition"),
        ("NOT 1", 5, "a literal of type integer is not a condition"),
        ("(id = 1) = TRUE", 1, "expected a column or a literal, found a condition"),
        ("TRUE = (id = 1)", 8, "expected a column or a literal, found a condition"),
        ("id = 'x'", 4, "'x' is not of type long"),
        ("id = '2.5'", 4, "'2.5' is not of type long"),
        ("id = '9223372036854775808'", 4, "does not fit long"),
        ("dec = '1.x'", 5, "'1.x' is not of type decimal(10,2)"),
        ("x = 'one'", 3, "'one' is not of type double"),
        ("b = 'maybe'", 3, "'maybe' is not of type boolean"),
        ("d = '2024-02-30'", 3, "'2024-02-30' is not of type date"),
        ("d = DATE '24-01-01'", 5, "'24-01-01' is not of type date"),
        ("ts = '2024-01-01 25:00:00'", 4, "is not of type timestamp"),
        ("ts = '2024-01-01 10:00:00 Europe/Berlin'", 4, "is not of type timestamp"),
        ("ts = '9999-12-31 23:00:00-05:00'", 4, "is not of type timestamp"),
        ("ntz = '2024-01-01T00:00:00Z'", 5, "has a time zone, and a timestamp_ntz has none"),
        ("name = 5", 6, "string and integer cannot be compared"),
        ("name = DATE '2024-01-01'", 6, "string and date cannot be compared"),
        ("b = 1", 3, "boolean and integer cannot be compared"),
        ("d = 5", 3, "date and integer cannot be compared"),
        ("id = TRUE", 4, "long and boolean cannot be compared"),
        ("id = name", 4, "long and string cannot be compared"),
        ("arr = 1", 5, "a column of type array can only be asked for IS NULL"),
        ("st = 1", 4, "a column of type struct can only be asked for IS NULL"),
        ("v = 1", 3, "a column of type variant can only be asked for IS NULL"),
        ("collated = 'x'", 1, "the column collated has a collation"),
        ("id LIKE 'a%'", 4, "LIKE compares strings, not long"),
        ("name LIKE name", 6, "the pattern of LIKE must be a literal"),
        (r"name LIKE 'a\\b'", 6, "a backslash must stand before"),
        (r"name LIKE 'a\\'", 6, "a backslash must stand before"),
        (f"name LIKE '{'%' * 10_001}'", 6, "a LIKE pattern has at most 10000 characters"),
        ("id = 1e400", 6, "1e400 is beyond the range of its type"),
        ("id = 1e40F", 6, "1e40F is beyond the range of its type"),
        ("id = " + "9" * 39, 6, "a decimal has at most 38 digits"),
        ("id = 1e99999999999999999999BD", 6, "a number has too large an exponent"),
        ("id = 9223372036854775808L", 6, "9223372036854775808 does not fit long"),
        ("id = 128Y", 6, "128 does not fit byte"),
        ("id = 1.5L", 6, "1.5L is not a whole number"),
        ("bin = X'GG'", 7, "X'…' holds hexadecimal digits"),
        (r"name = '\ud800'", 8, "half of a surrogate pair is no character"),
        ("name = '\ud800'", 9, "half of a surrogate pair is no character"),
        (r"name = '\U00110000'", 8, r"\U00110000 is not a character"),
        ("id = CAST('x' AS INT)", 6, "'x' is not of type integer"),
        ("id = CAST(300 AS TINYINT)", 6, "300 does not fit byte"),
        ("id = CAST(1 AS MONEY)", 16, "MONEY is not a type that CAST knows here"),
        ("id = CAST(1 AS DECIMAL(39, 0))", 16, "decimal(39,0) does not exist"),
        ("id = CAST(1 AS DECIMAL(x))", 24, "expected a number of digits, found x"),
        ("id = CAST(1, 2)", 12, "expected AS, found ,"),
        ("d = CAST(5 AS DATE)", 5, "CAST from integer to date is not known here"),
        ("CAST(id AS INT) = 5", 1, "CAST of a column from long to integer is not supported"),
    ],
)
def test_errors_say_what_and_where(text: str, position: int, message: str) -> None:
    with pytest.raises(PredicateError) as caught:
        read(text)
    assert caught.value.message.startswith(f"predicate, character {position}: ")
    assert message in caught.value.message
    assert caught.value.field == "predicate"
    assert caught.value.hint


def test_an_unknown_column_offers_those_that_are_near() -> None:
    with pytest.raises(PredicateError) as caught:
        read("nam = 'x'")
    assert caught.value.hint == "use Name"
    with pytest.raises(PredicateError) as caught:
        parse("zzz = 1", struct(a="long", b="long"))
    assert caught.value.hint == "use a, b"


@pytest.mark.parametrize("opening", ["(", "CAST(", "NOT (", "b AND ("])
def test_nesting_without_end_is_an_error_of_its_own(opening: str) -> None:
    with pytest.raises(PredicateError, match="more than 100 levels of parentheses"):
        read(opening * 10_000)


def test_nesting_up_to_the_limit_is_fine() -> None:
    assert read("(" * 100 + "b" + ")" * 100) == read("b")
