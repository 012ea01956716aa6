"""The installed command in processes of its own: every verb, the errors an operator meets, the document's examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli_samples import SCHEMA, Answer, files_below, ledger_rows, write_orders
from deltasql import connect
from deltasql.ledger.engine import SCHEMA_VERSION

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LOG = "warehouse/t/_delta_log"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DELTASQL_")}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "DELTASQL_LEDGER": "sqlite:///lake.db", **more}


def deltasql(folder: Path, *words: str) -> Answer:
    """Run the installed command; whatever it is asked, it shows no traceback and no escape codes."""
    done = subprocess.run(
        [BIN / "deltasql", *words], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def good(folder: Path, *words: str) -> str:
    answer = deltasql(folder, *words)
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out


def good_json(folder: Path, *words: str) -> Any:
    return json.loads(good(folder, *words, "--json"))


def refused(folder: Path, code: int, *words: str) -> str:
    """What a command says that fails as it should: it changes nothing, and says what to do next."""
    before = everything(folder)
    answer = deltasql(folder, *words)
    assert (answer.code, answer.out) == (code, ""), answer
    assert re.fullmatch(r"error: .+\nnext: .+\n", answer.err), answer
    assert everything(folder) == before
    return answer.err


def everything(folder: Path) -> tuple[dict[str, str], dict[str, int]]:
    database = folder / "lake.db"
    return files_below(folder), ledger_rows(database) if database.exists() else {}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, and a published table that no ledger knows any more."""
    folder = tmp_path_factory.mktemp("written")
    rows = pq.read_table(write_orders(folder / "orders.parquet"))
    with connect(f"sqlite:///{folder}/forgotten.db", root=str(folder / "warehouse")) as lake:
        lake.create_table("t", SCHEMA, ["day"]).append(rows)
        assert lake.mirror().ok
    return folder


@pytest.fixture
def lake(written: Path, tmp_path: Path) -> Path:
    """A folder with a ledger that holds the published table `t`."""
    folder = tmp_path / "lake"
    shutil.copytree(written, folder, ignore=shutil.ignore_patterns("forgotten.db*"))
    with connect(f"sqlite:///{folder}/lake.db", root=str(folder / "warehouse")) as lake:
        lake.adopt(str(folder / "warehouse/t"), "t")
    return folder


class TestVerbs:
    def test_a_table_from_its_making_to_its_copy(self, tmp_path: Path) -> None:
        here = tmp_path
        (here / "schema.json").write_text(SCHEMA)
        write_orders(here / "orders.parquet")
        ledger, root = f"sqlite:///{here}/lake.db", f"file://{here}/warehouse"
        place = f"{root}/sales/orders"

        assert good_json(here, "init", "--root", "warehouse") == {"ledger": ledger, "root": root, "created": True}
        assert good_json(here, "init") == {"ledger": ledger, "root": root, "created": False}
        assert good_json(here, "migrate") == {
            "ledger": ledger,
            "changed": False,
            "from": SCHEMA_VERSION,
            "to": SCHEMA_VERSION,
        }
        created = good_json(
            here, "table", "create", "sales.orders", "--schema", "schema.json", "--partition-by", "day",
            "--property", "delta.checkpointInterval=100", "--property", "delta.dataSkippingNumIndexedCols=2",
        )  # fmt: skip
        assert created == {"name": "sales.orders", "version": 0, "location": place}
        appended = good_json(here, "table", "append", "sales.orders", "orders.parquet")
        assert (appended["table"], appended["version"]) == ("sales.orders", 1)
        assert good_json(here, "table", "list") == {
            "tables": [{"name": "sales.orders", "version": 1, "published_version": None, "location": place}]
        }

        described = good_json(here, "table", "describe", "sales.orders")
        assert (described["version"], described["files"], described["partition_columns"]) == (1, 2, ["day"])
        assert described["properties"]["delta.checkpointInterval"] == "100"
        assert described["schema"] == json.loads(SCHEMA)
        files = good_json(here, "table", "files", "sales.orders")["files"]
        assert sorted((file["partition_values"]["day"], file["rows"]) for file in files) == [("a", 2), ("b", 1)]
        chosen = good_json(here, "table", "files", "sales.orders", "--filter", "day = 'b' AND id > 0")
        assert [file["partition_values"] for file in chosen["files"]] == [{"day": "b"}]
        assert good_json(here, "table", "files", "sales.orders", "--version", "0")["files"] == []
        assert good_json(here, "table", "files", "sales.orders", "--timestamp", "2999-01-01T00:00:00Z")["version"] == 1
        history = good_json(here, "table", "history", "sales.orders")["commits"]
        assert [(each["version"], each["operation"], each["mirror"]) for each in history] == [
            (1, "WRITE", "PENDING"),
            (0, "CREATE TABLE", "PENDING"),
        ]
        assert len(good_json(here, "table", "history", "sales.orders", "--limit", "1")["commits"]) == 1

        status = good_json(here, "mirror", "status")["tables"][0]
        assert (status["state"], status["pending"], status["published_version"]) == ("pending", 2, None)
        report = good_json(here, "mirror", "once", "sales.orders")
        assert (report["ok"], report["published"], report["tables"][0]["outcome"]) == (True, 2, "published")
        assert good_json(here, "mirror", "status", "sales.orders")["tables"][0]["state"] == "published"
        assert good_json(here, "checkpoint", "sales.orders") == {"table": "sales.orders", "version": 1}
        log = here / "warehouse/sales/orders/_delta_log"
        assert (log / f"{1:020}.checkpoint.parquet").exists()
        assert good(here, "show", "sales.orders", "1", "--raw") == (log / f"{1:020}.json").read_text()
        assert good_json(here, "show", "sales.orders", "1")["intact"] is True

        rebuilt = good_json(here, "rebuild", "sales.orders", "--to", "copy")
        assert (rebuilt["written"], rebuilt["location"]) == (2, f"file://{here}/copy")
        assert (here / f"copy/_delta_log/{1:020}.json").read_bytes() == (log / f"{1:020}.json").read_bytes()
        forced = good_json(here, "rebuild", "sales.orders", "--to", "copy", "--force")
        assert (forced["written"], forced["unchanged"]) == (0, 2)
        adopted = good_json(here, "adopt", "copy", "--name", "old", "--ledger", "sqlite:///new.db")
        assert adopted == {"name": "old", "version": 1, "location": f"file://{here}/copy"}
        assert good_json(here, "table", "history", "old", "--ledger", "sqlite:///new.db")["commits"][0]["version"] == 1

    def test_people_get_columns(self, lake: Path) -> None:
        place = f"file://{lake}/warehouse/t"
        assert good(lake, "table", "list") == f"name  version  published  location\nt     1        1          {place}\n"
        assert good(lake, "init") == (
            f"ledger   sqlite:///{lake}/lake.db\nroot     file://{lake}/warehouse\ncreated  was there\n"
        )
        assert good(lake, "migrate") == f"ledger  sqlite:///{lake}/lake.db\nschema  {SCHEMA_VERSION}\n"
        described = good(lake, "table", "describe", "t")
        assert "partition by  day\n" in described
        assert re.search(r"^column +type +nullable\nid +long +yes\nday +string +yes\n", described, re.MULTILINE)
        files = good(lake, "table", "files", "t").splitlines()
        assert re.fullmatch(r"day=a/part-\S+\.parquet +\d+ +2 +day=a", files[1])
        assert re.fullmatch(r"1 +\S+Z +WRITE +adopted +SUCCESS", good(lake, "table", "history", "t").splitlines()[1])
        once = good(lake, "mirror", "once").splitlines()
        assert [line.split() for line in once] == [
            ["table", "outcome", "new", "published", "head", "checkpoint"],
            ["t", "published", "0", "1", "1", "-"],
        ]
        assert good(lake, "mirror", "status").splitlines()[1].split() == ["t", "published", "1", "1", "0", "-", "-"]
        assert good(lake, "show", "t", "0").startswith('{\n  "commitInfo": {\n')
        assert good(lake, "checkpoint", "t") == "table    t\nversion  1\n"
        assert "written     2\n" in good(lake, "rebuild", "t", "--to", "copy")
        assert good(lake, "adopt", "copy", "--name", "c") == f"name      c\nversion   1\nlocation  file://{lake}/copy\n"
        create = good(lake, "table", "create", "n", "--schema", SCHEMA)
        assert create == f"name      n\nversion   0\nlocation  file://{lake}/warehouse/n\n"
        assert good(lake, "table", "append", "n", "orders.parquet").startswith("table    n\nversion  1\ntime     2")


class TestErrors:
    def test_an_unknown_table(self, lake: Path) -> None:
        for words in (
            ("table", "append", "nope", "orders.parquet"),
            ("mirror", "once", "t", "nope"),
            ("rebuild", "nope", "--to", "copy"),
        ):
            said = refused(lake, 1, *words)
        programs = deltasql(lake, "checkpoint", "nope", "--json")
        assert (programs.code, programs.err) == (1, "")
        assert said == f"error: {programs.document['message']}\nnext: {programs.document['hint']}\n"
        assert "deltasql table list" in said

    def test_a_wrong_schema(self, lake: Path) -> None:
        assert "fields" in refused(lake, 2, "table", "create", "n", "--schema", '{"type":"struct"}')

    def test_rows_that_do_not_fit(self, lake: Path) -> None:
        good(lake, "table", "create", "n", "--schema", SCHEMA.replace('"id"', '"number"'))
        assert "column id" in refused(lake, 2, "table", "append", "n", "orders.parquet")

    def test_a_missing_column(self, lake: Path) -> None:
        assert "no column nope" in refused(lake, 2, "table", "files", "t", "--filter", "nope = 1")

    def test_a_version_that_never_was(self, lake: Path) -> None:
        assert "no version 7" in refused(lake, 1, "show", "t", "7")
        refused(lake, 1, "table", "files", "t", "--timestamp", "1999-01-01T00:00:00Z")
        refused(lake, 2, "table", "files", "t", "--timestamp", "yesterday")

    @pytest.mark.parametrize(
        "url", ["lake.db", "mysql://host/lake", "sqlite://lake.db", "sqlite:////nowhere/at/all.db"]
    )
    def test_a_bad_ledger_url(self, lake: Path, url: str) -> None:
        refused(lake, 2, "table", "list", "--ledger", url)
        refused(lake, 2, "init", "--ledger", url)

    def test_an_unwritable_root(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "nothing can be written" in refused(tmp_path, 1, "init", "--root", "file/warehouse")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_root_that_went_away(self, lake: Path) -> None:
        shutil.rmtree(lake / "warehouse")
        (lake / "warehouse").write_text("")
        refused(lake, 1, "table", "create", "n", "--schema", SCHEMA)
        refused(lake, 1, "table", "append", "t", "orders.parquet")

    def test_another_root(self, lake: Path) -> None:
        refused(lake, 2, "init", "--root", "elsewhere")
        assert not (lake / "elsewhere").exists()

    def test_a_malformed_commit(self, lake: Path) -> None:
        shutil.copytree(lake / "warehouse/t", lake / "theirs")
        commit = lake / f"theirs/_delta_log/{1:020}.json"
        commit.write_bytes(commit.read_bytes()[:-20])
        assert f"{1:020}.json, line 3" in refused(lake, 1, "adopt", "theirs", "--name", "theirs")

    def test_a_folder_that_is_no_table(self, lake: Path) -> None:
        refused(lake, 1, "adopt", "nowhere", "--name", "n")

    def test_a_table_that_is_there_already(self, lake: Path) -> None:
        refused(lake, 1, "adopt", "warehouse/t", "--name", "again")
        refused(lake, 1, "table", "create", "t", "--schema", SCHEMA)

    def test_a_log_where_a_copy_should_go(self, lake: Path) -> None:
        good(lake, "rebuild", "t", "--to", "copy")
        assert "force" in refused(lake, 1, "rebuild", "t", "--to", "copy")

    def test_a_foreign_file_at_the_next_version(self, lake: Path) -> None:
        good(lake, "table", "create", "healthy", "--schema", SCHEMA)
        good(lake, "table", "append", "t", "orders.parquet")
        foreign = lake / LOG / f"{2:020}.json"
        foreign.write_text('{"commitInfo":{"operation":"THEIRS"}}\n')
        assert deltasql(lake, "mirror", "once").code == 1
        before = everything(lake)
        answer = deltasql(lake, "mirror", "once")
        assert answer.code == 1
        assert [line.split()[:2] for line in answer.out.splitlines()[1:]] == [
            ["healthy", "published"],
            ["t", "quarantined"],
        ]
        assert re.fullmatch(
            r"error: t: .*version 2.*\nnext: .*move the foreign file.*deltasql mirror once\n", answer.err
        )
        assert everything(lake) == before
        assert foreign.read_text() == '{"commitInfo":{"operation":"THEIRS"}}\n'

        report = deltasql(lake, "mirror", "once", "--json")
        assert (report.code, report.document["ok"]) == (1, False)
        assert [each["outcome"] for each in report.document["tables"]] == ["published", "quarantined"]
        status = deltasql(lake, "mirror", "status", "t", "--json")
        assert (status.code, status.document["tables"][0]["quarantined_version"]) == (1, 2)
        assert "deltasql mirror once t" in deltasql(lake, "mirror", "status").err

        foreign.rename(lake / "theirs.json")
        assert good_json(lake, "mirror", "once")["ok"] is True
        assert good(lake, "show", "t", "2", "--raw") == foreign.read_text()


class TestProcess:
    def test_a_reader_that_leaves_is_no_error(self, lake: Path) -> None:
        done = subprocess.run(
            ["bash", "-c", "deltasql show t 0 | true; deltasql show t 9 --json | true; echo ${PIPESTATUS[0]}"],
            cwd=lake,
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert (done.stdout, done.stderr) == ("1\n", "")

    def test_a_closed_output_does_not_stop_the_work(self, lake: Path) -> None:
        done = subprocess.run(
            ["bash", "-c", "deltasql table append t orders.parquet >&-"],
            cwd=lake,
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert good_json(lake, "table", "describe", "t")["version"] == 2

    def test_an_ascii_terminal_gets_numbers_for_what_it_cannot_show(self, lake: Path) -> None:
        good(lake, "table", "create", "größe", "--schema", SCHEMA)
        done = subprocess.run(
            [sys.executable, "-m", "deltasql.cli.main", "table", "list"],
            cwd=lake,
            env=environment(PYTHONIOENCODING="ascii"),
            capture_output=True,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert rb"gr\xf6\xdfe" in done.stdout

    def test_the_examples_of_the_document_work(self, tmp_path: Path) -> None:
        write_orders(tmp_path / "orders.parquet")
        examples = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/cli.md").read_text("utf-8"), re.DOTALL)
        assert len(examples) > 10
        # The demo needs Spark and a running mirror does not end; both have tests of their own.
        left_out = ("deltasql demo", "deltasql mirror run")
        script = "set -ex\n" + "".join(each for each in examples if not each.startswith(left_out))
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert [each["name"] for each in good_json(tmp_path, "table", "list")["tables"]] == [
            "old.orders",
            "sales.orders",
        ]
