"""The error tree is drawn, and its table written, at the top of its file: both are held to the real classes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from deltasql import errors
from deltasql.errors import ConflictError, DeltaSqlError, SchemaError
from deltasql.outcomes import Conflict

pytestmark = pytest.mark.unit

SOURCE = Path(errors.__file__).parent


def subclasses(base: type[DeltaSqlError]) -> list[type[DeltaSqlError]]:
    return [found for child in base.__subclasses__() for found in (child, *subclasses(child))]


def real_classes() -> list[type[DeltaSqlError]]:
    return [DeltaSqlError, *(c for c in subclasses(DeltaSqlError) if c.__module__ == errors.__name__)]


def drawn_tree(text: str) -> dict[str, str]:
    """Each class of the drawing with the class it hangs from."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for branch, name in re.findall(r"^    ([│├└─ ]*)(\w+Error)\b", text.partition("\n\n    class ")[0], re.MULTILINE):
        depth = len(branch) // 4
        del path[depth:]
        if path:
            parents[name] = path[-1]
        path.append(name)
    return parents


def written_table(text: str) -> dict[str, tuple[str, str, bool, bool]]:
    rows = re.findall(r"^    (\w+Error) +(\w+) +(\w+) +(yes|no) +(yes|no)$", text, re.MULTILINE)
    return {name: (kind, severity, retry == "yes", rebase == "yes") for name, kind, severity, retry, rebase in rows}


def answers(cls: type[DeltaSqlError]) -> tuple[str, str, bool, bool]:
    return (cls.error_class, cls.severity, cls.retry, cls.rebase)


def test_the_drawing_is_the_real_tree() -> None:
    real = {cls.__name__: base.__name__ for cls in real_classes() for base in cls.__bases__ if base is not Exception}
    assert drawn_tree(errors.__doc__ or "") == real
    assert len(real) > 15


def test_the_table_says_what_the_classes_say() -> None:
    table = written_table(errors.__doc__ or "")
    assert table == {cls.__name__: answers(cls) for cls in real_classes() if cls.__name__ in table}


def test_a_class_without_a_row_answers_as_its_parent_does() -> None:
    table = written_table(errors.__doc__ or "")
    silent = [cls for cls in real_classes() if cls.__name__ not in table and cls is not DeltaSqlError]
    assert {cls.__name__: answers(cls) for cls in silent} == {
        cls.__name__: next((table[c.__name__] for c in cls.__mro__ if c.__name__ in table), None) for cls in silent
    }


def test_no_error_class_lives_anywhere_else() -> None:
    known = {cls.__name__ for cls in real_classes()}
    strays = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and {ast.unparse(base).rpartition(".")[2] for base in node.bases} & known
    ]
    assert strays == []


def test_an_error_says_what_to_do_next() -> None:
    error = SchemaError("column id is missing", hint="add the column", field="id")
    assert str(error) == "column id is missing → add the column"
    assert error.as_dict() == {
        "error": "SchemaError",
        "error_class": "config",
        "severity": "error",
        "message": "column id is missing",
        "hint": "add the column",
        "field": "id",
    }


def test_a_conflict_error_carries_the_conflict() -> None:
    conflict = Conflict(table="t", reason="concurrent_append", winning_version=7, detail="files were added")
    error = ConflictError(conflict)
    assert error.conflict is conflict
    assert "winning version 7" in str(error)
    assert error.hint
