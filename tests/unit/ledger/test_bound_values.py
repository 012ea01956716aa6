"""No SQL is built from a value: every statement is made of the ledger's own words, and values are bound to it.

The source is read, not run. Whatever is handed to a driver as a statement is followed back to constants; a name that
leads anywhere else is a finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import deltasql.ledger
from deltasql.errors import ConfigError
from deltasql.ledger.roles import role_statements

pytestmark = pytest.mark.unit

LEDGER = Path(deltasql.ledger.__file__).parent

# Calls whose first argument is a statement.
SINKS = {"row", "rows", "change", "batches", "execute", "executemany", "exec_driver_sql", "_execute", "copy", "Change"}
# Calls of the same names that have nothing to do with SQL.
NOT_SQL = {"pa.row", "shutil.copy"}
# A parameter with one of these names is a statement too: whoever calls the function is asked for it.
STATEMENTS = {"statement", "statements"}
# What a parameter of such a type is asked for are names of the schema, written down in the source.
SCHEMA_TYPES = {"ActionTable", "Dialect"}
# Of the values that become rows these attributes are names of the schema; the rows themselves are not.
SCHEMA_ATTRIBUTES = {"table", "columns", "end", "key", "statement"}
ROW_TYPES = {"Insert", "EndLives", "Write", "Change"}
# What an object keeps of a database: its own spelling of things, and one number that was checked.
DIALECT_ATTRIBUTES = {
    *("clock", "lock_row", "find_table", "begin_write", "begin_read", "begin_migration"),
    *("_beginning", "_lock_timeout"),
}
# Pure rearrangement of what is ours already.
SHAPING = {"join", "encode", "_spell", "respell", "cast", "len", "range", "tuple", "list", "sorted", "enumerate", "zip"}
# These answer with names from the definition of the schema, whatever they are asked with.
SCHEMA_CALLS = {"rows_of", "table_names"}
# A value of the caller's inside a statement, and why that is safe.
CHECKED = {("roles.py", "prefix"): "no identifier can be bound; role_statements lets through a plain name only"}


class Source:
    """One file, and what its names stand for."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def findings(self) -> Iterator[str]:
        for call in (node for node in ast.walk(self.tree) if isinstance(node, ast.Call)):
            for argument in self._statements_of(call):
                if foreign := self._foreign(argument, call, frozenset()):
                    yield f"{self.name}:{call.lineno}: {foreign} is part of a statement"

    def _statements_of(self, call: ast.Call) -> Iterator[ast.expr]:
        called = ast.unparse(call.func)
        if called.rpartition(".")[2] in SINKS and called not in NOT_SQL and call.args:
            yield call.args[0]
        yield from (keyword.value for keyword in call.keywords if keyword.arg in STATEMENTS)
        for function in (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)):
            if function.name == called.removeprefix("self."):
                names = [argument.arg for argument in function.args.args if argument.arg != "self"]
                yield from (value for name, value in zip(names, call.args, strict=False) if name in STATEMENTS)

    def _foreign(self, node: ast.expr, place: ast.AST, seen: frozenset[str]) -> str | None:
        """What in an expression is not of our own making; None where all of it is."""
        match node:
            case ast.Constant():
                return None
            case ast.Name():
                return self._foreign_name(node.id, place, seen)
            case ast.Attribute():
                return self._foreign_attribute(node, place, seen)
            case ast.Call():
                return self._foreign_call(node, place, seen)
            case ast.GeneratorExp() | ast.ListComp():
                inside = node
            case ast.IfExp():
                return self._foreign(node.body, place, seen) or self._foreign(node.orelse, place, seen)
            case ast.JoinedStr() | ast.FormattedValue() | ast.BinOp() | ast.Tuple() | ast.List() | ast.Starred():
                inside = place
            case ast.BoolOp():
                inside = place
            case _:
                return ast.unparse(node)
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return next((found for part in parts if (found := self._foreign(part, inside, seen))), None)

    def _foreign_name(self, name: str, place: ast.AST, seen: frozenset[str]) -> str | None:
        # Constants of a module; what they are made of is looked at where they are handed on.
        if name.lstrip("_").isupper() or name in seen or name in STATEMENTS or (self.name, name) in CHECKED:
            return None
        origins = list(self._origins(name, place))
        if not origins:
            return name
        return next((found for one in origins if (found := self._foreign(one, place, seen | {name}))), None)

    def _foreign_attribute(self, node: ast.Attribute, place: ast.AST, seen: frozenset[str]) -> str | None:
        if node.attr.lstrip("_").isupper() or node.attr in DIALECT_ATTRIBUTES:
            return None
        kind = self._type_of(node.value, place)
        if kind in SCHEMA_TYPES or (kind in ROW_TYPES and node.attr in SCHEMA_ATTRIBUTES):
            return None
        if isinstance(node.value, ast.Name) and not kind and list(self._origins(node.value.id, place)):
            return self._foreign_name(node.value.id, place, seen)
        return ast.unparse(node)

    def _foreign_call(self, node: ast.Call, place: ast.AST, seen: frozenset[str]) -> str | None:
        """A function makes nothing foreign of what is ours. Methods of text are given what they join, not the text."""
        called = ast.unparse(node.func).rpartition(".")
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) and called[2] in ("encode", "join") else []
        if called[2] in SCHEMA_CALLS:
            return None
        if called[2] not in SHAPING and called[0] not in ("", "sql", "self"):
            return ast.unparse(node)
        given = [*receiver, *node.args, *(keyword.value for keyword in node.keywords)]
        annotated = (one for one in given if self._type_of(one, place) not in SCHEMA_TYPES | ROW_TYPES)
        return next((found for one in annotated if (found := self._foreign(one, place, seen))), None)

    # ------------------------------------------------------------ where names come from

    def _scopes(self, place: ast.AST) -> Iterator[ast.AST]:
        while place in self.parents:
            yield place
            place = self.parents[place]
        yield place

    def _origins(self, name: str, place: ast.AST) -> Iterator[ast.expr]:
        """Everything that a name is set to in the scopes around a place."""
        for scope in self._scopes(place):
            if isinstance(scope, ast.FunctionDef | ast.Lambda) and name in _parameters(scope):
                return
            if isinstance(scope, ast.FunctionDef | ast.GeneratorExp | ast.ListComp):
                found = list(_bound(name, scope))
                if found:
                    yield from found
                    return

    def _type_of(self, node: ast.expr, place: ast.AST) -> str | None:
        """The annotation of a parameter, where the expression is one."""
        if not isinstance(node, ast.Name):
            return None
        for scope in self._scopes(place):
            if isinstance(scope, ast.FunctionDef) and node.id in _parameters(scope):
                annotation = _parameters(scope)[node.id].annotation
                return None if annotation is None else ast.unparse(annotation)
        return None


def _parameters(function: ast.FunctionDef | ast.Lambda) -> dict[str, ast.arg]:
    return {one.arg: one for one in (*function.args.args, *function.args.kwonlyargs)}


def _bound(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value) if any(_names(one, name) for one in targets):
                yield value
            case ast.NamedExpr(target=target, value=value) if _names(target, name):
                yield value
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                if _names(target, name):
                    yield value
            case _:
                pass


def _names(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(target))


def files() -> list[Path]:
    # Migrations are given nothing by a caller.
    return [path for path in sorted(LEDGER.rglob("*.py")) if "migrations" not in path.parts]


def test_every_statement_is_made_of_our_own_words() -> None:
    assert [found for path in files() for found in Source(path.name, path.read_text()).findings()] == []


def test_the_guard_looks_at_the_statements_there_are() -> None:
    sources = {path.name: Source(path.name, path.read_text()) for path in files()}
    calls = {
        name: sum(1 for node in ast.walk(one.tree) if isinstance(node, ast.Call) for _ in one._statements_of(node))
        for name, one in sources.items()
    }
    assert min(calls[name] for name in ("writer.py", "reader.py", "outbox.py", "registry.py", "postgresql.py")) > 3


PLANTED = {
    "an f-string": "session.row(f\"SELECT * FROM dl_tables WHERE name = '{name}'\")",
    "an attribute": 'session.rows(f"SELECT * FROM {entry.name}")',
    "concatenation": 'session.change("DELETE FROM dl_tables WHERE name = " + name)',
    "a percent sign": "session.change(\"DELETE FROM dl_tables WHERE name = '%s'\" % name)",
    "format": 'session.change("DELETE FROM {}".format(name))',
    "a variable": 'query = "SELECT " + name\n    session.row(query)',
    "a variable in an f-string": 'where = f"name = \'{name}\'"\n    session.batches(f"SELECT 1 WHERE {where}", (), 1)',
    "join": 'session.row("SELECT " + ", ".join([name]))',
    "a builder": "session.row(sql.select_alive(name, ()))",
    "a loop": 'for each in names:\n        connection.execute(f"DROP TABLE {each}")',
    "a statement as a value": "session.change(name)",
    "inside a Change": 'Change(f"UPDATE {name}", ())',
    "a row": 'session.row(f"SELECT {write.rows}")',
    "a keyword": 'session.run(statement=f"SELECT {name}")',
    "a choice": 'session.row("SELECT 1" if name else f"SELECT {name}")',
    "a subscript": "session.row(names[0])",
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_value_in_a_statement_is_found(kind: str) -> None:
    planted = f"def planted(session, connection, name: str, names, entry, write: Insert):\n    {PLANTED[kind]}\n"
    assert len(list(Source("planted.py", planted).findings())) == 1


SOUND = {
    "a constant": "session.row(sql.SELECT_TABLE, (name,))",
    "the words of a database": "session.row(sql.SELECT_LEASE + session.dialect.lock_row, (name,))",
    "a choice of constants": 'part = " LIMIT 1" if name else ""\n    session.row(f"{sql.SELECT_STATUS}{part}", ())',
    "a builder": "for source in ALL_TABLES:\n        session.rows(sql.select_actions(source), (name,))",
    "names of the schema": 'session.row(f"SELECT {table.end} FROM {table.name}")',
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_bound_value_is_not_complained_of(kind: str) -> None:
    sound = f"def sound(session, name: str, table: ActionTable):\n    {SOUND[kind]}\n"
    assert list(Source("sound.py", sound).findings()) == []


@pytest.mark.parametrize("prefix", ["", "A", "a b", "a;b", "a'b", 'a"b', "a--", "é", "1a", "a" * 42, "a\n", "a\0"])
def test_the_one_value_that_cannot_be_bound_is_a_plain_name(prefix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        role_statements(prefix)
    assert caught.value.field == "prefix"
