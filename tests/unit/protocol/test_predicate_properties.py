"""Properties of the predicate language: its spelling comes back, and no text brings the parser down."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import PredicateError
from deltasql.protocol.predicate import Predicate, parse, to_sql
from predicate_samples import SCHEMA

pytestmark = pytest.mark.unit


def read(text: str) -> Predicate:
    return parse(text, SCHEMA)


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


WORDS = ["id", "name", "st.u", "NOT", "IN", "LIKE", "IS", "NULL", "AND", "BETWEEN", "CAST(", " AS ", "INT", "DATE"]
VALUES = ["TIMESTAMP", "'2024-01-01'", "1", "1e9999", "X'0'", "'a%'", "\x00", "é", "2.5", "9" * 50]
PIECES = st.sampled_from([*"()=<>!,.+-'\"`\\%_~ ", *WORDS, *VALUES])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join) | st.text())
def test_any_text_is_a_predicate_or_a_predicate_error(text: str) -> None:
    try:
        predicate = read(text)
    except PredicateError:
        return
    assert read(to_sql(predicate)) == predicate
