"""The predicate language: what parses to what, what is refused, and that the spelling comes back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import PredicateError
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
from deltasql.protocol.schema import ArrayType, DataType, DecimalType, PrimitiveType, StructField, StructType

pytestmark = pytest.mark.unit


def primitive(name: str) -> PrimitiveType:
    return PrimitiveType(name)


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


SCHEMA = StructType(
    (
        *struct(
            id=primitive("long"),
            tiny=primitive("byte"),
            Name=primitive("string"),
            d=primitive("date"),
            ts=primitive("timestamp"),
            ntz=primitive("timestamp_ntz"),
            x=primitive("double"),
            f=primitive("float"),
            dec=DecimalType(10, 2),
            big=DecimalType(38, 0),
            b=primitive("boolean"),
            bin=primitive("binary"),
            st=struct(u=primitive("long"), inner=struct(V=primitive("string"))),
            arr=ArrayType(primitive("long")),
            date=primitive("date"),
            v=primitive("variant"),
        ).fields,
        StructField("a.b", primitive("long")),
        StructField("odd`name", primitive("long")),
        StructField("select list", primitive("long")),
        StructField("and", primitive("long")),
        StructField("collated", primitive("string"), True, {"__COLLATIONS": {"collated": "ICU.UNICODE_CI"}}),
    )
)


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
        ("ntz < TIMESTAMP '2024-01-01 01:00:00 Europe/Berlin'", "ntz < TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
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
        ("ts = '2024-01-01 10:00:00 Mars/Base'", 4, "is not of type timestamp"),
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
        parse("zzz = 1", struct(a=primitive("long"), b=primitive("long")))
    assert caught.value.hint == "use a, b"


@pytest.mark.parametrize("opening", ["(", "CAST(", "NOT (", "b AND ("])
def test_nesting_without_end_is_an_error_of_its_own(opening: str) -> None:
    with pytest.raises(PredicateError, match="more than 100 levels of parentheses"):
        read(opening * 10_000)


def test_nesting_up_to_the_limit_is_fine() -> None:
    assert read("(" * 100 + "b" + ")" * 100) == read("b")


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


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value!r}D"),
    st.sampled_from(["1e3", "2.5", "0.1F", "CAST('NaN' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "127", "1BD", "NULL"]),
)
# Python's quoting of plain text is SQL's too; what needs an escape is doubled or escaped here.
TEXTS = st.text(st.characters(exclude_categories=["Cs"])).map(
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
)
MOMENTS = st.one_of(
    st.dates().map(lambda day: f"DATE '{day.isoformat()}'"),
    st.datetimes().map(lambda moment: f"TIMESTAMP '{moment.isoformat(' ')}'"),
    st.datetimes().map(lambda moment: f"TIMESTAMP_NTZ '{moment.isoformat('T')}'"),
)
LITERALS: dict[str, st.SearchStrategy[str]] = {
    **dict.fromkeys(["id", "tiny", "x", "f", "dec", "big", "st.u", "`odd``name`", "`and`"], NUMBERS),
    **dict.fromkeys(["name", "ST.inner.V"], TEXTS),
    **dict.fromkeys(["d", "ts", "ntz"], MOMENTS),
    "bin": st.binary().map(lambda value: f"X'{value.hex()}'"),
    "b": st.sampled_from(["TRUE", "FALSE", "'no'", "NULL"]),
}


@st.composite
def conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LITERALS)))
    first, second = draw(LITERALS[name]), draw(LITERALS[name])
    sign = draw(st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="]))
    negated = draw(st.sampled_from(["", "NOT "]))
    forms = [
        f"{name} {sign} {first}",
        f"{first} {sign} {name}",
        f"{name} {negated}IN ({first}, {second})",
        f"{name} {negated}BETWEEN {first} AND {second}",
        f"{name} IS {negated}NULL",
        f"{name} {sign} {name}",
        f"{first} {sign} {second}",
    ]
    return draw(st.sampled_from(forms))


TREES = st.recursive(
    conditions(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(" ".join),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"NOT {text}"),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_the_spelling_parses_to_the_same_tree(text: str) -> None:
    predicate = read(text)
    assert read(to_sql(predicate)) == predicate


PIECES = st.sampled_from(
    [*"()=<>!,.+-'\"`\\%_~ ", "id", "name", "st.u", "NOT", "IN", "LIKE", "IS", "NULL", "AND", "CAST(", " AS ", "INT"]
    + ["DATE", "'2024-01-01'", "1", "1e9999", "X'0'", "BETWEEN", "'a%'", "\x00", "é", "2.5", "9" * 50, "TIMESTAMP"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join) | st.text())
def test_any_text_is_a_predicate_or_a_predicate_error(text: str) -> None:
    try:
        predicate = read(text)
    except PredicateError as error:
        assert error.field == "predicate"
    else:
        assert read(to_sql(predicate)) == predicate
