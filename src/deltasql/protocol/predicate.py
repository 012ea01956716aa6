"""Predicates: boolean expressions of Spark SQL over the columns of a table.

    parse("day >= '2024-01-01' AND region IN ('eu', 'us')", schema)

Comparisons (`=`, `==`, `<=>`, `<>`, `!=`, `<`, `<=`, `>`, `>=`), `[NOT] IN`, `[NOT] BETWEEN`, `[NOT] LIKE`,
`IS [NOT] NULL`, `AND`, `OR`, `NOT` and parentheses; columns, nested ones too, and literals with `CAST`. Names are
found without regard to case. Types meet as under Spark's ANSI rules.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar, cast

from deltasql.errors import PredicateError
from deltasql.protocol.predicate_compare import Operand, among, cast_column, compare, is_null, like, truth
from deltasql.protocol.predicate_literals import (
    BINARY,
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Literal,
    cast_literal,
    number_literal,
    parse_text,
    sql_type,
    string_literal,
)
from deltasql.protocol.predicate_tree import (
    KEYWORDS,
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
    all_of,
    any_of,
    columns,
    negation,
    quote_name,
    to_sql,
)
from deltasql.protocol.schema import DataType, StructType

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "columns",
    "parse",
    "to_sql",
]

MAX_DEPTH = 100

_Node = Predicate | Operand
_P = ParamSpec("_P")
_T = TypeVar("_T")

_TOKEN = re.compile(
    r"""\s*+(?:
      (?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?(?:bd|[lsydf])?(?!\w))
    | (?P<word>\w++)
    | (?P<name>`(?:[^`]++|``)*+`)
    | (?P<text>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    | (?P<symbol><=>|<>|<=|>=|==|!=|[=<>!().,+-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="})
_TYPED = {"DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ}
_CONSTANTS = {"TRUE": Literal(True, BOOLEAN), "FALSE": Literal(False, BOOLEAN), "NULL": Literal(None, VOID)}
_GRAMMAR = "use comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT and parentheses over columns and literals"


class _Token(NamedTuple):
    kind: str
    text: str
    position: int

    @property
    def keyword(self) -> str:
        """The word in capitals, or the symbol; empty for what is quoted, because that is never a keyword."""
        return self.text.upper() if self.kind in {"word", "symbol"} else ""


def parse(text: str, schema: StructType) -> Predicate:
    """The predicate of a condition on rows of that schema; `PredicateError` says what is wrong and where."""
    return _Parser(text, schema).parse()


def _error(position: int, message: str, hint: str = _GRAMMAR) -> PredicateError:
    return PredicateError(f"predicate, character {position + 1}: {message}", hint=hint, field="predicate")


def _at(position: int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call what knows the values but not where they stand."""
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        raise _error(position, str(error), "compare a column with a literal of its own type") from error


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            position = len(text) - len(text[position:].lstrip())
            if text[position] in "'\"`":
                raise _error(position, f"what {text[position]} opens is never closed", "close the quotes")
            raise _error(position, f"the character {text[position]!r} is not expected here")
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, text: str, schema: StructType) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _error(
                error.start, "half of a surrogate pair is no character", "pass text of whole characters"
            ) from None
        self._schema = schema
        self._tokens = _tokens(text)
        self._index = 0

    def parse(self) -> Predicate:
        start = self._token.position
        node = self._condition(0)
        if self._token.kind != "end":
            raise self._expected("AND, OR or the end")
        return _at(start, truth, node)

    # -- tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._index]

    def _next(self) -> _Token:
        token = self._token
        self._index += 1
        return token

    def _accept(self, *keywords: str) -> _Token | None:
        return self._next() if self._token.keyword in keywords else None

    def _expect(self, keyword: str) -> None:
        if not self._accept(keyword):
            raise self._expected(keyword)

    def _expected(self, what: str, hint: str = _GRAMMAR) -> PredicateError:
        found = "the end" if self._token.kind == "end" else self._token.text
        return _error(self._token.position, f"expected {what}, found {found}", hint)

    # -- conditions

    def _condition(self, depth: int) -> _Node:
        """Parts between AND, and these between OR. A single part is passed on as it is: it may be an operand."""
        alternatives: list[Predicate] = []
        while True:
            start = self._token.position
            node = self._negation(depth)
            if not alternatives and self._token.keyword not in {"AND", "OR"}:
                return node
            parts = [_at(start, truth, node)]
            while self._accept("AND"):
                start = self._token.position
                parts.append(_at(start, truth, self._negation(depth)))
            alternatives.append(all_of(parts))
            if not self._accept("OR"):
                return any_of(alternatives)

    def _negation(self, depth: int) -> _Node:
        negations = 0
        while self._accept("NOT", "!"):
            negations += 1
        start = self._token.position
        node = self._comparison(depth)
        if not negations:
            return node
        condition = _at(start, truth, node)
        return negation(condition) if negations % 2 else condition

    def _comparison(self, depth: int) -> _Node:
        start = self._token.position
        node = self._operand(depth)
        token = self._token
        if token.keyword not in _COMPARISONS | {"IS", "NOT", "IN", "BETWEEN", "LIKE"}:
            return node
        left = self._value(node, start)
        self._index += 1
        if token.keyword in _COMPARISONS:
            return _at(token.position, compare, left, token.keyword, self._scalar(depth))
        if token.keyword == "IS":
            negated = self._accept("NOT")
            self._expect("NULL")
            return negation(is_null(left)) if negated else is_null(left)
        negated = token.keyword == "NOT"
        predicate = self._listed(left, self._next() if negated else token, depth)
        return negation(predicate) if negated else predicate

    def _listed(self, left: Operand, token: _Token, depth: int) -> Predicate:
        """What follows a column in IN, BETWEEN and LIKE."""
        match token.keyword:
            case "IN":
                self._expect("(")
                items = [self._scalar(depth)]
                while self._accept(","):
                    items.append(self._scalar(depth))
                self._expect(")")
                return _at(token.position, among, left, items)
            case "BETWEEN":
                low = self._scalar(depth)
                self._expect("AND")
                high = self._scalar(depth)
                return all_of(
                    [_at(token.position, compare, left, ">=", low), _at(token.position, compare, left, "<=", high)]
                )
            case "LIKE":
                return _at(token.position, like, left, self._scalar(depth))
            case _:
                self._index -= 1
                raise self._expected("IN, BETWEEN or LIKE")

    # -- operands

    def _scalar(self, depth: int) -> Operand:
        start = self._token.position
        return self._value(self._operand(depth), start)

    def _value(self, node: _Node, position: int) -> Operand:
        if isinstance(node, Column | Literal):
            return node
        raise _error(position, "expected a column or a literal, found a condition", "compare columns and literals only")

    def _operand(self, depth: int) -> _Node:
        token = self._token
        if token.keyword == "(":
            node = self._condition(self._open(depth))
            self._expect(")")
            return node
        if sign := self._accept("-", "+"):
            if self._token.kind != "number":
                raise self._expected("a number after the sign")
            return _at(sign.position, number_literal, sign.text + self._next().text)
        if token.kind == "number":
            return _at(token.position, number_literal, self._next().text)
        if token.kind == "text":
            return Literal(self._text(), STRING)
        if token.kind in {"word", "name"}:
            return self._word(depth)
        raise self._expected("a column or a literal")

    def _open(self, depth: int) -> int:
        """Pass an opening parenthesis, unless it is one too many for the stack."""
        if depth == MAX_DEPTH:
            raise _error(self._token.position, f"more than {MAX_DEPTH} levels of parentheses", "flatten the condition")
        self._expect("(")
        return depth + 1

    def _text(self) -> str:
        token = self._next()
        return _at(token.position, string_literal, token.text)

    def _word(self, depth: int) -> Operand:
        token, following = self._token, self._tokens[self._index + 1]
        if token.keyword in _CONSTANTS:
            self._index += 1
            return _CONSTANTS[token.keyword]
        if following.kind == "text" and token.keyword in {*_TYPED, "X"}:
            self._index += 1
            text = self._text()
            if token.keyword == "X":
                return Literal(_at(token.position, _from_hex, text), BINARY)
            kind = _TYPED[token.keyword]
            return Literal(_at(token.position, parse_text, text, kind), kind)
        if token.keyword == "CAST" and following.keyword == "(":
            return self._cast(depth)
        if following.keyword == "(" and token.keyword.lower() not in KEYWORDS:
            raise _error(token.position, f"functions such as {token.text} are not supported")
        if token.keyword.lower() in KEYWORDS:
            raise self._expected("a column or a literal", f"write `{token.text}` in back ticks if it is a column")
        return self._column()

    def _cast(self, depth: int) -> Operand:
        position = self._next().position
        operand = self._scalar(self._open(depth))
        self._expect("AS")
        kind = self._type()
        self._expect(")")
        if isinstance(operand, Column):
            return _at(position, cast_column, operand, kind)
        return _at(position, cast_literal, operand, kind)

    def _type(self) -> DataType:
        if self._token.kind != "word":
            raise self._expected("a type")
        name = self._next()
        arguments: list[int] = []
        if self._accept("("):
            arguments.append(self._type_argument())
            while self._accept(","):
                arguments.append(self._type_argument())
            self._expect(")")
        return _at(name.position, sql_type, name.text, tuple(arguments))

    def _type_argument(self) -> int:
        if self._token.kind != "number" or not re.fullmatch("[0-9]{1,2}", self._token.text):
            raise self._expected("a number of digits")
        return int(self._next().text)

    def _column(self) -> Column:
        start = self._token.position
        kind = cast("DataType", self._schema)
        path: list[str] = []
        while not path or self._accept("."):
            token = self._token
            if token.kind not in {"word", "name"}:
                raise self._expected("the name of a column")
            self._index += 1
            name = token.text[1:-1].replace("``", "`") if token.kind == "name" else token.text
            field = kind.field(name) if isinstance(kind, StructType) else None
            if field is None:
                raise _unknown(start, [*path, name], kind)
            if "__COLLATIONS" in field.metadata:
                raise _error(
                    start, f"the column {name} has a collation", "deltasql compares strings by their bytes only"
                )
            path.append(field.name)
            kind = field.type
        return Column(tuple(path), kind)


def _unknown(position: int, path: list[str], within: DataType) -> PredicateError:
    names = within.names if isinstance(within, StructType) else ()
    folded = {name.casefold(): name for name in names}
    close = [folded[name] for name in difflib.get_close_matches(path[-1].casefold(), folded, n=3)]
    offered = ", ".join(map(quote_name, close or names[:10]))
    hint = f"use {offered}" if offered else f"{'.'.join(path[:-1])} is not a struct"
    return _error(position, f"there is no column {'.'.join(path)}", hint)


def _from_hex(text: str) -> bytes:
    if not re.fullmatch("[0-9A-Fa-f]*", text):
        raise ValueError("X'…' holds hexadecimal digits")
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
