"""The command line in this process: what every verb shares, what an error comes to, and how things are printed."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cli_samples import SCHEMA, Deltasql
from deltasql import errors
from deltasql.cli import mirror, table
from deltasql.cli.failures import exit_code
from deltasql.cli.main import app
from deltasql.errors import DeltaSqlError
from deltasql.outcomes import Conflict
from deltasql.version import __version__

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


def verbs() -> dict[str, Any]:
    """Every verb with its command."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{path} {name}".strip())

    return dict(walk(typer.main.get_command(app), ""))


# A use of every verb that works on a ledger, complete but for it.
USES = {
    "init": ("init",),
    "migrate": ("migrate",),
    "roles": ("roles", "--apply"),
    "audit": ("audit",),
    "table list": ("table", "list"),
    "table create": ("table", "create", "t", "--schema", SCHEMA),
    "table describe": ("table", "describe", "t"),
    "table files": ("table", "files", "t"),
    "table partitions": ("table", "partitions", "t"),
    "table history": ("table", "history", "t"),
    "table set": ("table", "set", "t", "a=1"),
    "table unset": ("table", "unset", "t", "a"),
    "table constraint add": ("table", "constraint", "add", "t", "c", "id > 0"),
    "table constraint drop": ("table", "constraint", "drop", "t", "c"),
    "table rename": ("table", "rename", "t", "u"),
    "table drop": ("table", "drop", "t"),
    "table append": ("table", "append", "t", __file__),
    "mirror once": ("mirror", "once"),
    "mirror run": ("mirror", "run", "--in-process"),
    "mirror status": ("mirror", "status"),
    "adopt": ("adopt", "nowhere", "--name", "a"),
    "rebuild": ("rebuild", "t"),
    "checkpoint": ("checkpoint", "t"),
    "show": ("show", "t", "0"),
}
NEED_A_LEDGER = sorted(set(USES) - {"init", "adopt"})
# These make a lake of their own.
WITHOUT_A_LEDGER = {"demo"}


# A new class of error must be given its place here.
EXIT_CODES = {
    "ConfigError": 2,
    "LedgerVersionError": 2,
    "UnsupportedError": 2,
    "InvalidInputError": 2,
    "SchemaError": 2,
    "PredicateError": 2,
    "DeltaSqlError": 1,
    "NotFoundError": 1,
    "TableNotFoundError": 1,
    "VersionNotFoundError": 1,
    "TableExistsError": 1,
    "ConflictError": 1,
    "LedgerError": 1,
    "LedgerBusyError": 1,
    "LedgerRaceError": 1,
    "LedgerUnavailableError": 1,
    "CommitUnknownError": 1,
    "LedgerCorruptError": 1,
    "LedgerFullError": 1,
    "StorageError": 1,
    "ObjectNotFoundError": 1,
    "StoragePermissionError": 1,
    "StorageFullError": 1,
    "StorageUnavailableError": 1,
    "LogError": 1,
    "MalformedLogError": 1,
    "ForeignCommitError": 1,
    "QuarantinedError": 1,
}


class TestHelp:
    def test_every_verb_is_listed_here(self) -> None:
        assert set(verbs()) == set(USES) | WITHOUT_A_LEDGER

    @pytest.mark.parametrize("words", [(), ("table",), ("table", "constraint"), ("mirror",)])
    def test_without_a_verb_it_shows_help(self, deltasql: Deltasql, words: tuple[str, ...]) -> None:
        answer = deltasql(*words)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"Usage: {' '.join(('deltasql', *words))} [OPTIONS] COMMAND")

    @pytest.mark.parametrize("verb", sorted(USES))
    def test_every_verb_takes_a_ledger_and_json_and_explains_itself(self, deltasql: Deltasql, verb: str) -> None:
        answer = deltasql(*verb.split(), "--help")
        assert answer.code == 0
        for wanted in ("--ledger URL", "DELTASQL_LEDGER", "--json"):
            assert wanted in answer.out
        options = [parameter for parameter in verbs()[verb].params if not getattr(parameter, "help", None)]
        assert options == []
        # The first line stands in the list of verbs, where longer ones are cut.
        assert len(verbs()[verb].help.partition("\n")[0]) <= 60

    def test_the_release_is_shown(self, deltasql: Deltasql) -> None:
        assert deltasql("--version") == (0, f"deltasql {__version__}\n", "")

    def test_help_loads_nothing_heavy(self) -> None:
        code = (
            "import json, sys\n"
            "from deltasql.cli.main import main\n"
            "main(['--help']); main(['table', 'create', '--help'])\n"
            "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        loaded = set(json.loads(done.stdout.splitlines()[-1]))
        assert "typer" in loaded
        assert loaded & {"pyarrow", "sqlalchemy", "alembic", "sqlite3", "obstore", "rich"} == set()


class TestDocument:
    def test_it_has_a_chapter_for_every_verb_and_for_no_other(self) -> None:
        text = (ROOT / "docs/cli.md").read_text("utf-8")
        assert sorted(re.findall(r"^### `deltasql ([a-z -]+)`$", text, re.MULTILINE)) == sorted(verbs())

    @pytest.mark.parametrize("verb", sorted(verbs()))
    def test_every_chapter_has_one_example(self, verb: str) -> None:
        text = (ROOT / "docs/cli.md").read_text("utf-8")
        chapter = text.partition(f"### `deltasql {verb}`\n")[2].partition("\n#")[0]
        assert len(re.findall(rf"^```sh\ndeltasql {verb}( .*)?\n```$", chapter, re.MULTILINE)) == 1

    def test_it_tells_the_exit_codes(self) -> None:
        text = (ROOT / "docs/cli.md").read_text("utf-8")
        assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == ["0", "1", "2", "130"]


class TestLedgerOption:
    @pytest.mark.parametrize("verb", sorted(USES))
    @pytest.mark.parametrize("value", [None, ""])
    def test_a_missing_ledger_is_wrong_use(
        self, deltasql: Deltasql, monkeypatch: pytest.MonkeyPatch, verb: str, value: str | None
    ) -> None:
        monkeypatch.delenv("DELTASQL_LEDGER") if value is None else monkeypatch.setenv("DELTASQL_LEDGER", value)
        answer = deltasql(*USES[verb])
        assert (answer.code, answer.out) == (2, "")
        assert "--ledger" in answer.err
        assert "DELTASQL_LEDGER" in answer.err

    @pytest.mark.parametrize("verb", NEED_A_LEDGER)
    def test_a_mistyped_path_makes_no_new_ledger(self, deltasql: Deltasql, tmp_path: Path, verb: str) -> None:
        answer = deltasql(*USES[verb])
        assert answer.code == 2
        assert f"no ledger at {tmp_path}/lake.db" in answer.err
        assert "deltasql init --ledger URL --root PATH" in answer.err
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("verb", NEED_A_LEDGER)
    def test_a_database_of_something_else_is_left_alone(self, deltasql: Deltasql, tmp_path: Path, verb: str) -> None:
        with closing(sqlite3.connect(tmp_path / "lake.db")) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        answer = deltasql(*USES[verb])
        assert (answer.code, "deltasql init" in answer.err) == (2, True)
        with closing(sqlite3.connect(tmp_path / "lake.db")) as connection:
            assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]

    def test_the_option_goes_before_the_environment(self, lake: Deltasql, tmp_path: Path) -> None:
        assert lake("init", "--ledger", "sqlite:///other.db").code == 0
        assert lake("table", "list", "--json", "--ledger", "sqlite:///other.db").document == {"tables": []}
        assert [each["name"] for each in lake("table", "list", "--json").document["tables"]] == ["t"]

    @pytest.mark.parametrize(("found", "advice"), [("0000", "deltasql migrate"), ("9999", "newer release")])
    def test_a_ledger_of_another_release_is_refused(
        self, lake: Deltasql, tmp_path: Path, found: str, advice: str
    ) -> None:
        with closing(sqlite3.connect(tmp_path / "lake.db")) as connection, connection:
            connection.execute("UPDATE dl_schema_version SET version_num = ?", (found,))
        answer = lake("table", "list")
        assert (answer.code, advice in answer.err) == (2, True)
        if found == "9999":
            answer = lake("migrate")
            assert (answer.code, advice in answer.err) == (2, True)


class TestExitCodes:
    def test_every_class_of_error_has_one(self) -> None:
        conflict = Conflict(table="t", reason="concurrent_append", winning_version=1)
        classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DeltaSqlError)]
        special: dict[type, DeltaSqlError] = {
            errors.ConflictError: errors.ConflictError(conflict),
            errors.CommitUnknownError: errors.CommitUnknownError("message", token="t"),
        }
        made = [special.get(c) or c("message") for c in classes]
        assert {type(error).__name__: exit_code(error) for error in made} == EXIT_CODES

    def test_an_error_is_two_lines_for_people(self, lake: Deltasql) -> None:
        answer = lake("table", "describe", "nope")
        assert answer == (
            1,
            "",
            "error: there is no table 'nope' in this ledger\nnext: list the tables with: deltasql table list\n",
        )

    def test_an_error_is_a_document_for_programs(self, lake: Deltasql) -> None:
        answer = lake("table", "describe", "nope", "--json")
        assert (answer.code, answer.err) == (1, "")
        assert answer.document == {
            "error": "TableNotFoundError",
            "error_class": "config",
            "severity": "error",
            "message": "there is no table 'nope' in this ledger",
            "hint": "list the tables with: deltasql table list",
            "field": "table",
        }

    def test_what_the_parser_refuses_has_the_same_shape(self, deltasql: Deltasql) -> None:
        assert deltasql("table", "creat") == (
            2,
            "",
            "error: No such command 'creat'. Did you mean 'create'?\nnext: see: deltasql table --help\n",
        )
        answer = deltasql("show", "--json", "t")
        assert (answer.code, answer.err, answer.document["hint"]) == (2, "", "see: deltasql show --help")
        assert "'VERSION'" in answer.document["message"]

    @pytest.mark.parametrize("version", ["-1", "9223372036854775808", "x"])
    def test_an_impossible_version_is_wrong_use(self, lake: Deltasql, version: str) -> None:
        assert lake("table", "files", "t", "--version", version).code == 2
        assert lake("show", "t", "--", version).code == 2

    def test_a_bug_is_called_one(self, lake: Deltasql, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(table, "open_lake", lambda _: 1 / 0)
        answer = lake("table", "list")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith("error: ZeroDivisionError: division by zero\nnext: this is a bug: ")
        assert "Traceback" not in answer.err
        assert lake("table", "list", "--json").document["error_class"] == "bug"
        monkeypatch.setenv("DELTASQL_DEBUG", "1")
        assert "Traceback" in lake("table", "list").err

    def test_ctrl_c_is_130(self, lake: Deltasql, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(_: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(mirror, "open_lake", interrupted)
        answer = lake("mirror", "once")
        assert (answer.code, answer.out, answer.err.strip()) == (130, "", "")
