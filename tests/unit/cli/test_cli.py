"""The command line in this process: what every verb shares, what an error comes to, and how things are printed."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from cli_samples import SCHEMA, files_below, write_orders

from deltasql import errors
from deltasql.cli import mirror, output, table
from deltasql.cli.failures import exit_code
from deltasql.cli.main import app, main
from deltasql.errors import DeltaSqlError
from deltasql.outcomes import Conflict
from deltasql.protocol.schema import parse_schema
from deltasql.version import __version__

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Deltasql = Callable[..., Answer]


@pytest.fixture
def deltasql(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deltasql:
    """The command, in an empty folder, with a ledger that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTASQL_LEDGER", "sqlite:///lake.db")
    monkeypatch.delenv("DELTASQL_DEBUG", raising=False)

    def run(*words: str) -> Answer:
        code = main(words)
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def lake(deltasql: Deltasql, tmp_path: Path) -> Deltasql:
    """The command, with a ledger and a table of one append."""
    assert deltasql("init", "--root", "warehouse").code == 0
    assert deltasql("table", "create", "t", "--schema", SCHEMA, "--partition-by", "day").code == 0
    assert deltasql("table", "append", "t", str(write_orders(tmp_path / "orders.parquet"))).code == 0
    return deltasql


def verbs() -> dict[str, Any]:
    """Every verb with its command."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{path} {name}".strip())

    return dict(walk(typer.main.get_command(app), ""))


# A use of every verb that is complete but for the ledger.
USES = {
    "init": ("init",),
    "migrate": ("migrate",),
    "table list": ("table", "list"),
    "table create": ("table", "create", "t", "--schema", SCHEMA),
    "table describe": ("table", "describe", "t"),
    "table files": ("table", "files", "t"),
    "table history": ("table", "history", "t"),
    "table append": ("table", "append", "t", __file__),
    "mirror once": ("mirror", "once"),
    "mirror status": ("mirror", "status"),
    "adopt": ("adopt", "nowhere", "--name", "a"),
    "rebuild": ("rebuild", "t"),
    "checkpoint": ("checkpoint", "t"),
    "show": ("show", "t", "0"),
}
NEED_A_LEDGER = sorted(set(USES) - {"init", "adopt"})


class TestHelp:
    def test_every_verb_is_listed_here(self) -> None:
        assert set(verbs()) == set(USES)

    @pytest.mark.parametrize("words", [(), ("table",), ("mirror",)])
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
        assert sorted(re.findall(r"^### `deltasql ([a-z -]+)`$", text, re.MULTILINE)) == sorted(USES)

    @pytest.mark.parametrize("verb", sorted(USES))
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
    # A new class of error must be given its place here.
    EXPECTED = {
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

    def test_every_class_of_error_has_one(self) -> None:
        conflict = Conflict(table="t", reason="concurrent_append", winning_version=1)
        classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DeltaSqlError)]
        made = [c(conflict) if c is errors.ConflictError else c("message") for c in classes]
        assert {type(error).__name__: exit_code(error) for error in made} == self.EXPECTED

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


class TestWrongInput:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--schema", "{"), "not JSON"),
            (("--schema", '{"type":"struct","type":"struct","fields":[]}'), "stands twice"),
            (("--schema", "missing.json"), "missing.json"),
            (("--schema", "."), "cannot be read"),
            (("--schema", '{"type":"\udcff"}'), "cannot be read"),
            (("--schema", '{"type":"array"}'), "type"),
            (("--schema", SCHEMA, "--property", "novalue"), "'novalue' is no property"),
            (("--schema", SCHEMA, "--property", "=1"), "no property"),
            (("--schema", SCHEMA, "--property", "a=1", "--property", "a=2"), "given twice"),
            (("--schema", SCHEMA, "--partition-by", "nope"), "nope"),
            (("--schema", SCHEMA, "--partition-by", "day,"), "''"),
        ],
    )
    def test_a_table_that_cannot_be_made(
        self, lake: Deltasql, tmp_path: Path, words: tuple[str, ...], said: str
    ) -> None:
        before = files_below(tmp_path)
        answer = lake("table", "create", "new", *words)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err.partition("\nnext: ")[0]
        assert "backup" not in answer.err
        assert answer.err.partition("\nnext: ")[2].strip()
        assert files_below(tmp_path) == before
        assert len(lake("table", "list", "--json").document["tables"]) == 1

    def test_a_ledger_without_a_root_says_how_to_give_it_one(self, deltasql: Deltasql) -> None:
        assert deltasql("init").code == 0
        answer = deltasql(*USES["table create"])
        assert (answer.code, "deltasql init --ledger URL --root PATH" in answer.err) == (2, True)
        assert deltasql("init", "--root", "warehouse").code == 0
        assert deltasql(*USES["table create"]).code == 0

    def test_raw_and_json_exclude_each_other(self, lake: Deltasql) -> None:
        assert lake("show", "t", "0", "--raw", "--json").code == 2

    def test_a_file_that_is_no_parquet(self, lake: Deltasql) -> None:
        answer = lake("table", "append", "t", __file__)
        assert (answer.code, "Parquet" in answer.err) == (2, True)
        assert lake("table", "describe", "t", "--json").document["version"] == 1


class TestShow:
    def test_a_commit_that_was_tampered_with_is_shown_and_told(self, lake: Deltasql, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "lake.db")) as connection, connection:
            connection.execute("UPDATE dl_add_files SET size = size + 1 WHERE version = 1")
        answer = lake("show", "t", "1")
        assert answer.code == 1
        assert '"add": {' in answer.out
        assert answer.err.startswith("error: version 1 of t does not encode")
        answer = lake("show", "t", "1", "--json")
        assert (answer.code, answer.document["intact"]) == (1, False)

    def test_people_see_every_action_and_programs_one_document(self, lake: Deltasql) -> None:
        raw = lake("show", "t", "1", "--raw")
        actions = [json.loads(line) for line in raw.out.splitlines()]
        assert [next(iter(action)) for action in actions] == ["commitInfo", "add", "add"]
        assert lake("show", "t", "1", "--json").document["actions"] == actions
        shown, decoder = lake("show", "t", "1").out, json.JSONDecoder()
        found: list[Any] = []
        while shown.strip():
            action, end = decoder.raw_decode(shown)
            found, shown = [*found, action], shown[end:].lstrip()
        assert found == actions


class TestMirrorStatus:
    def test_a_failed_table_is_a_finding_until_it_is_published(self, lake: Deltasql, tmp_path: Path) -> None:
        assert lake("mirror", "status").code == 0
        # A file where the folder of the log should be.
        log = tmp_path / "warehouse/t/_delta_log"
        log.write_text("")
        assert lake("mirror", "once").code == 1
        answer = lake("mirror", "status", "t")
        assert (answer.code, answer.out.splitlines()[1].split()[:5]) == (1, ["t", "failed", "-", "1", "2"])
        assert answer.err.startswith("error: t: version 0: ")
        assert "next: put that right, then run: deltasql mirror once t\n" in answer.err
        assert lake("mirror", "status", "--json").document["ok"] is False
        log.unlink()
        assert lake("mirror", "once").code == 0
        assert lake("mirror", "status", "--json").document == {
            "ok": True,
            "tables": [
                {
                    "table": "t",
                    "state": "published",
                    "head_version": 1,
                    "published_version": 1,
                    "pending": 0,
                    "oldest_pending_at": None,
                    "checkpoint_version": None,
                    "quarantined_version": None,
                    "error": None,
                    "hint": None,
                }
            ],
        }


class TestOutput:
    def test_a_pipe_gets_plain_columns_uncut(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "40")
        path = "p" * 500
        output.print_table(["path", "n"], [(path, 1), ("[red]x[/red] :smile:", None)])
        assert capsys.readouterr().out.splitlines() == [
            f"path{' ' * 496}  n",
            f"{path}  1",
            f"[red]x[/red] :smile:{' ' * 480}  -",
        ]

    def test_a_terminal_gets_a_table_that_fits(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        output.print_table(["path"], [("p" * 100,)])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 40
        assert "".join(re.findall("p+", "".join(lines[1:]))) == "p" * 100
        assert any("─" in line for line in lines)

    @pytest.mark.parametrize("text", ["\x1b[2Jgone", "two\nlines", "bell\x07", "\x9b31m"])
    def test_nothing_reaches_the_terminal_that_it_would_obey(
        self, capsys: pytest.CaptureFixture[str], text: str
    ) -> None:
        output.print_table(["a"], [(text,)])
        output.print_fields({"a": text, "b": {text: text}})
        output.print_problem(text, text)
        shown = "".join(capsys.readouterr())
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
        assert shown.count("\n") == 6
        assert shown.count(output.printable(text)) == 6

    @pytest.mark.parametrize(
        ("milliseconds", "shown"),
        [
            (None, None),
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_860_800_123, "2026-01-31T12:00:00.123Z"),
            (2**62, f"{2**62} ms"),
        ],
    )
    def test_a_moment_is_shown_in_utc(self, milliseconds: int | None, shown: str | None) -> None:
        assert output.instant(milliseconds) == shown

    def test_types_are_written_in_one_line(self) -> None:
        element = '{"type":"array","elementType":"decimal(5,2)","containsNull":true}'
        kind = f'{{"type":"map","keyType":"string","valueType":{element},"valueContainsNull":true}}'
        field = f'{{"name":"m","type":{kind},"nullable":true,"metadata":{{}}}}'
        schema = parse_schema(f'{{"type":"struct","fields":[{field}]}}')
        assert table.type_name(schema) == "struct<m:map<string,array<decimal(5,2)>>>"

    def test_a_full_disk_is_no_bug(self, tmp_path: Path) -> None:
        """Through a real file: the error comes from the operating system."""
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "deltasql.cli.main", "--version"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": ""},
            )
        assert done.returncode == 1
        assert done.stderr.startswith("error: the system answered: ")
        assert "bug" not in done.stderr
        assert "Traceback" not in done.stderr
