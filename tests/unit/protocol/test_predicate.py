"""The predicate language: what parses to what, what is refused, and that the spelling comes back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from deltasql.protocol.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    columns,
    parse,
    to_sql,
)
from deltasql.protocol.schema import DataType, StructType
from predicate_samples import SCHEMA

pytestmark = pytest.mark.unit


def column(*path: str) -> Column:
    kind: DataType = SCHEMA
    for name in path:
        assert isinstance(kind, StructType)
        field = kind.field(name)
        assert field is not None
        kind = field.type
    return Column(path, kind)


def read(text: str) -> Predicate:
    return parse(text, SCHEMA)


ID = column("id")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("id = 5", Comparison(ID, "=", 5)),
        ("ID == 5", Comparison(ID, "=", 5)),
        ("id <> 5", Not(Comparison(ID, "=", 5))),
        ("id != 5", Not(Comparison(ID, "=", 5))),
        ("5 < id", Comparison(ID, ">", 5)),
        ("5 >= id", Comparison(ID, "<=", 5)),
        ("(5) = (id)", Comparison(ID, "=", 5)),
        ("id <=> 5", And((Not(IsNull(ID)), Comparison(ID, "=", 5)))),
        ("id <=> NULL", IsNull(ID)),
        ("NULL <=> id", IsNull(ID)),
        ("id = NULL", Constant(None)),
        ("id IS NULL", IsNull(ID)),
        ("id is not null", Not(IsNull(ID))),
        ("id BETWEEN 1 AND 3", And((Comparison(ID, ">=", 1), Comparison(ID, "<=", 3)))),
        ("id NOT BETWEEN 1 AND 3", Not(And((Comparison(ID, ">=", 1), Comparison(ID, "<=", 3))))),
        ("id IN (1, 2, 1)", In(ID, (1, 2))),
        ("id NOT IN (1, 2)", Not(In(ID, (1, 2)))),
        ("id IN (1)", Comparison(ID, "=", 1)),
        ("id IN (1, 2, NULL)", Or((In(ID, (1, 2)), Constant(None)))),
        ("id IN (1, 2.5)", Comparison(ID, "=", 1)),
        ("id IN (tiny, 1, 2)", Or((In(ID, (1, 2)), Comparison(ID, "=", column("tiny"))))),
        ("1 IN (id, 2)", Or((Comparison(ID, "=", 1), Constant(False)))),
        ("name LIKE 'a%'", Like(column("Name"), "a%")),
        ("name NOT LIKE '_'", Not(Like(column("Name"), "_"))),
        ("name LIKE 'abc'", Comparison(column("Name"), "=", "abc")),
        (r"name LIKE 'a\%b'", Comparison(column("Name"), "=", "a%b")),
        (r"name LIKE 'a\\\\%'", Like(column("Name"), r"a\\%")),
        ("b", Comparison(column("b"), "=", True)),
        ("NOT b", Not(Comparison(column("b"), "=", True))),
        ("! b", Not(Comparison(column("b"), "=", True))),
        ("NOT NOT b", Comparison(column("b"), "=", True)),
        ("TRUE", Constant(True)),
        ("false", Constant(False)),
        ("NULL", Constant(None)),
        ("id = 1 OR b AND tiny = 2", Or((Comparison(ID, "=", 1), And((read("b"), read("tiny = 2")))))),
        ("(id = 1 OR b) AND tiny = 2", And((Or((Comparison(ID, "=", 1), read("b"))), read("tiny = 2")))),
        ("id = 1 AND (b AND tiny = 2)", And((Comparison(ID, "=", 1), read("b"), read("tiny = 2")))),
        ("NOT id = 1 AND b", And((Not(Comparison(ID, "=", 1)), read("b")))),
        ("id = tiny", Comparison(ID, "=", column("tiny"))),
        ("d < ts", Comparison(column("d"), "<", column("ts"))),
        ("st.u > 1", Comparison(column("st", "u"), ">", 1)),
        ("ST.Inner.v = 'x'", Comparison(column("st", "inner", "V"), "=", "x")),
        ("`a.b` = 1", Comparison(column("a.b"), "=", 1)),
        ("`odd``name` = 1", Comparison(column("odd`name"), "=", 1)),
        ("`Select List` = 1", Comparison(column("select list"), "=", 1)),
        ("`st`.`u` = 1", Comparison(column("st", "u"), "=", 1)),
        ("date = DATE '2024-01-02'", Comparison(column("date"), "=", date(2024, 1, 2))),
        ("arr IS NULL", IsNull(column("arr"))),
        ("v IS NOT NULL", Not(IsNull(column("v")))),
    ],
)
def test_trees(text: str, tree: Predicate) -> None:
    assert read(text) == tree


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        # Numbers against exact columns are exact.
        ("id < 2.5", "id <= 2"),
        ("id <= 2.5", "id <= 2"),
        ("id > 2.5", "id > 2"),
        ("id >= 2.5", "id > 2"),
        ("id > -2.5", "id > -3"),
        ("id = 2.5", "id IS NULL AND NULL"),
        ("id <> 2.5", "NOT (id IS NULL AND NULL)"),
        ("id <=> 2.5", "id IS NOT NULL AND id IS NULL AND NULL"),
        ("id = 2.0", "id = 2"),
        ("id = 1e3", "id = 1000"),
        ("id = 1000.0D", "id = 1000"),
        ("id < 9223372036854775808", "id IS NOT NULL OR NULL"),
        ("id > 9223372036854775808", "id IS NULL AND NULL"),
        ("id < -1e300", "id IS NULL AND NULL"),
        ("id >= -1e300", "id IS NOT NULL OR NULL"),
        ("id = 9223372036854775807", "id = 9223372036854775807"),
        ("id = -9223372036854775808", "id = -9223372036854775808"),
        ("id = 9007199254740993", "id = 9007199254740993"),
        ("id < CAST('NaN' AS DOUBLE)", "id IS NOT NULL OR NULL"),
        ("id < CAST('-inf' AS DOUBLE)", "id IS NULL AND NULL"),
        ("tiny < 127.5", "tiny <= 127"),
        ("tiny > 127", "tiny > 127"),
        ("tiny > 128", "tiny IS NULL AND NULL"),
        ("tiny < -128.5", "tiny IS NULL AND NULL"),
        ("tiny IN (300, 1000)", "tiny IS NULL AND NULL"),
        ("dec = 1.50", "dec = 1.50"),
        ("dec > 1.555", "dec > 1.55"),
        ("dec = 0.1D", "dec = 0.10"),
        ("dec < 100000000", "dec IS NOT NULL OR NULL"),
        ("dec = 99999999.99", "dec = 99999999.99"),
        ("big = 99999999999999999999999999999999999999", "big = 99999999999999999999999999999999999999"),
        ("big > 0.1", "big > 0"),
        # A double or float column meets the nearest double.
        ("x = 0.1", "x = 0.1D"),
        ("x = 1", "x = 1.0D"),
        ("x = -0.0D", "x = 0.0D"),
        ("x > 1e16", "x > 1e+16D"),
        ("x = 'nan'", "x = CAST('NaN' AS DOUBLE)"),
        ("x < ' -Infinity '", "x < CAST('-Infinity' AS DOUBLE)"),
        ("f = 0.1", "f = 0.1D"),
        ("f = 0.1F", "f = 0.10000000149011612D"),
        ("f = CAST(0.1 AS FLOAT)", "f = 0.10000000149011612D"),
        # Strings become what the column is.
        ("id = ' 12 '", "id = 12"),
        ("tiny = '300'", "tiny IS NULL AND NULL"),
        ("dec = '1.5'", "dec = 1.50"),
        ("b = 'yes'", "b = TRUE"),
        ("bin = 'a'", "bin = X'61'"),
        ("d = '2024-1-2'", "d = DATE '2024-01-02'"),
        ("d = '2024'", "d = DATE '2024-01-01'"),
        ("d = '2024-01-02 10:00:00'", "d = DATE '2024-01-02'"),
        ("ts >= '2024-01-02'", "ts >= TIMESTAMP '2024-01-02 00:00:00Z'"),
        ("ts = '2024-01-02T10:00:00.123456789+02:00'", "ts = TIMESTAMP '2024-01-02 08:00:00.123456Z'"),
        ("ntz = '2024-01-02 10:00'", "ntz = TIMESTAMP_NTZ '2024-01-02 10:00:00'"),
        # Dates and times meet at midnight UTC.
        ("d < TIMESTAMP '2024-01-01 10:00:00'", "d <= DATE '2024-01-01'"),
        ("d = TIMESTAMP '2024-01-01'", "d = DATE '2024-01-01'"),
        ("d = TIMESTAMP '2024-01-01 10:00:00'", "d IS NULL AND NULL"),
        ("ts < DATE '2024-01-01'", "ts < TIMESTAMP '2024-01-01 00:00:00Z'"),
        ("ts < TIMESTAMP_NTZ '2024-01-01 01:00:00'", "ts < TIMESTAMP '2024-01-01 01:00:00Z'"),
        ("ntz < TIMESTAMP '2024-01-01 01:00:00 +1:00'", "ntz < TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
        ("ts < TIMESTAMP_LTZ '2024-01-01 01:00:00+0100'", "ts < TIMESTAMP '2024-01-01 00:00:00Z'"),
        # Spellings of literals.
        ("id = +10L", "id = 10"),
        ("id = -1S", "id = -1"),
        ("id = 1Y", "id = 1"),
        ("dec = 2BD", "dec = 2.00"),
        ("dec = .5", "dec = 0.50"),
        ("bin = x'abc'", "bin = X'0ABC'"),
        ('name = "it\'s"', r"Name = 'it\'s'"),
        ("name = 'it''s'", r"Name = 'it\'s'"),
        (r"name = 'it\'s'", r"Name = 'it\'s'"),
        (r"name = '\101\u0042\U00000043\%\_\\\q'", r"Name = 'ABC\\%\\_\\q'"),
        (r"name = '\ud83d\ude00'", "Name = '\U0001f600'"),
        (r"name = '\0'", r"Name = '\u0000'"),
        # CAST of literals, and of columns where it changes nothing.
        ("id = CAST('5' AS INT)", "id = 5"),
        ("id = CAST(1.9 AS BIGINT)", "id = 1"),
        ("id = CAST(TRUE AS INT)", "id = 1"),
        ("dec = CAST(1.555 AS DECIMAL(10, 2))", "dec = 1.56"),
        ("dec = CAST(1.5 AS DECIMAL)", "dec = 2.00"),
        ("name = CAST(1.50 AS STRING)", "Name = '1.50'"),
        ("d = CAST(TIMESTAMP '2024-01-01 10:00:00' AS DATE)", "d = DATE '2024-01-01'"),
        ("ts = CAST(DATE '2024-01-01' AS TIMESTAMP)", "ts = TIMESTAMP '2024-01-01 00:00:00Z'"),
        ("id = CAST(NULL AS INT)", "NULL"),
        ("CAST(tiny AS BIGINT) = 300", "tiny IS NULL AND NULL"),
        # Literals among themselves.
        ("1 = 1", "TRUE"),
        ("1 > 1.5", "FALSE"),
        ("'a' < 'b'", "TRUE"),
        ("'1' = 1", "TRUE"),
        ("CAST('NaN' AS DOUBLE) > 1e308", "TRUE"),
        ("DATE '2024-01-01' < TIMESTAMP '2024-01-01 00:00:01'", "TRUE"),
        ("NULL <=> NULL", "TRUE"),
        ("1 <=> NULL", "FALSE"),
        ("1 IN (2, NULL)", "FALSE OR NULL"),
        ("NULL IS NULL", "TRUE"),
        ("'abc' LIKE 'a%c'", "TRUE"),
        # Names that must be quoted, and those that need not be.
        ("`and` = 1 AND x = 1", "`and` = 1 AND x = 1.0D"),
        ("`a.b` = 1 OR `odd``name` = 2", "`a.b` = 1 OR `odd``name` = 2"),
        ("id=1 or(b and not(tiny=2 or f>1))", "id = 1 OR b = TRUE AND NOT (tiny = 2 OR f > 1.0D)"),
    ],
)
def test_canonical_spelling(text: str, sql: str) -> None:
    predicate = read(text)
    assert to_sql(predicate) == sql
    assert read(sql) == predicate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = 1", 1.0),
        ("dec = 1", Decimal(1)),
        ("ts = '2024-01-01'", datetime(2024, 1, 1, tzinfo=UTC)),
        ("ntz = '2024-01-01'", datetime(2024, 1, 1)),  # noqa: DTZ001
        ("d = '2024-01-01'", date(2024, 1, 1)),
        ("bin = X'00ff'", b"\x00\xff"),
        ("b = 'f'", False),
    ],
)
def test_a_literal_has_the_type_of_its_column(text: str, value: object) -> None:
    predicate = read(text)
    assert isinstance(predicate, Comparison)
    assert predicate.operand == value
    assert type(predicate.operand) is type(value)


def test_long_chains_are_not_nested() -> None:
    predicate = read(" AND ".join(f"id <> {number}" for number in range(10_000)))
    assert isinstance(predicate, And)
    assert len(predicate.operands) == 10_000
    assert read(to_sql(predicate)) == predicate
    assert read("NOT " * 10_001 + "b") == read("NOT b")


def test_columns_are_named_by_their_true_path() -> None:
    predicate = read("ID = 1 AND (st.INNER.v LIKE 'a%' OR NOT d < ts) OR tiny IN (1, 2) OR arr IS NULL OR 1 = 1")
    assert columns(predicate) == {("id",), ("st", "inner", "V"), ("d",), ("ts",), ("tiny",), ("arr",)}
    assert columns(Constant(True)) == frozenset()


def test_predicates_are_values() -> None:
    assert {read("x IN ('NaN', 1)"), read("x IN (CAST('nan' AS DOUBLE), 1.0)")} == {read("x IN ('NaN', 1)")}
    nan = read("x = 'NaN'")
    assert isinstance(nan, Comparison)
    assert isinstance(nan.operand, float)
    assert math.isnan(nan.operand)
