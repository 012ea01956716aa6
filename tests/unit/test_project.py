"""Promises the project makes about itself: file sizes, what an import loads, links and numbers in the documents."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
DRIVERS = {"duckdb", "psycopg", "sqlite3"}
LIBRARIES = {"alembic", "obstore", "polars", "pyarrow", "pyspark", "rich", "sqlalchemy", "typer"}


def run_python(code: str) -> str:
    """The output of `code` in a fresh process that knows nothing of this one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DELTASQL_", "PYTEST_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestFileSizes:
    def test_no_file_passes_the_limit(self) -> None:
        assert load_tool("check_file_sizes").longer_than(600, ROOT) == []

    def test_the_check_looks_at_source_tests_and_documents(self) -> None:
        seen = set(load_tool("check_file_sizes").written_files(ROOT))
        assert {ROOT / "src/deltasql/errors.py", Path(__file__), ROOT / "README.md", ROOT / "tools/setup"} <= seen

    @pytest.mark.parametrize(("lines", "code"), [(600, 0), (601, 1)])
    def test_the_check_draws_the_line(self, tmp_path: Path, lines: int, code: int) -> None:
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "long.py").write_text("x = 1\n" * lines)
        assert load_tool("check_file_sizes").main(tmp_path) == code


class TestImport:
    def test_importing_deltasql_loads_no_driver_and_no_engine(self) -> None:
        loaded = json.loads(run_python("import deltasql, json, sys; print(json.dumps(sorted(sys.modules)))"))
        assert "deltasql" in loaded
        assert (DRIVERS | LIBRARIES) & {name.partition(".")[0] for name in loaded} == set()

    def test_every_public_name_is_there_and_no_other_is_invented(self) -> None:
        report = json.loads(
            run_python(
                "import deltasql, json\n"
                "names = list(deltasql.__all__)\n"
                "missing = [name for name in names if getattr(deltasql, name, None) is None]\n"
                "hidden = sorted(set(names) - set(dir(deltasql)))\n"
                "print(json.dumps([names, missing, hidden, hasattr(deltasql, 'nope')]))"
            )
        )
        names, missing, hidden, invented = report
        assert {"connect", "DeltaSqlError"} <= set(names)
        assert len(names) == len(set(names))
        assert (missing, hidden, invented) == ([], [], False)

    def test_the_command_named_in_the_project_file_can_be_called(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        module, _, function = project["scripts"]["deltasql"].partition(":")
        assert run_python(f"import {module} as m; print(callable(m.{function}))").strip() == "True"


class TestTests:
    def test_every_test_file_says_what_kind_it_is(self) -> None:
        pytest_options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
        kinds = {line.partition(":")[0] for line in pytest_options["markers"]} - {"slow"}
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        assert Path(__file__) in files
        unmarked = [str(path.relative_to(ROOT)) for path in files if not kinds & module_marks(path)]
        assert unmarked == []


def module_marks(path: Path) -> set[str]:
    """The markers that a test file sets for all of itself by `pytestmark`."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            return {part.attr for part in ast.walk(node.value) if isinstance(part, ast.Attribute)}
    return set()


class TestDocuments:
    DOCUMENTS = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))

    @pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
    def test_every_link_leads_somewhere(self, document: Path) -> None:
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text("utf-8"))
        local = [link for link in links if not link.startswith(("http://", "https://"))]
        assert [link for link in local if not (document.parent / link).exists()] == []

    def test_the_requirements_keep_their_numbers_and_name_files_that_exist(self) -> None:
        counts = {"A": 7, "B": 3, "C": 4, "D": 5, "F": 3, "G": 5, "H": 4, "I": 4, "J": 2, "K": 4, "L": 2, "M": 4}
        expected = {f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)}
        expected |= {f"E{number}" for number in range(6)}
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in (ROOT / "docs/requirements.md").read_text("utf-8").splitlines()
            if re.match(r"\| [A-M]\d ", line)
        ]
        assert sorted(row[0] for row in rows) == sorted(expected)
        assert {row[4] for row in rows} <= {"done", "in part", "not yet"}
        for number, _, module, test, state in rows:
            named = re.findall(r"`([^`]+)`", module + test)
            assert [path for path in named if not (ROOT / path).exists()] == [], number
            assert bool(named) == (state != "not yet"), number

    def test_the_index_of_decisions_is_whole(self) -> None:
        folder = ROOT / "docs/adr"
        records = sorted(path.name for path in folder.glob("[0-9]*.md"))
        assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))
        assert re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text("utf-8")) == records
