"""What single verbs do with wrong input, and how they tell of findings."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli_samples import SCHEMA, Deltasql, files_below

pytestmark = pytest.mark.unit


class TestWrongInput:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--schema", "{"), "not JSON"),
            (("--schema", '{"type":"struct","type":"struct","fields":[]}'), "stands twice"),
            (("--schema", "missing.json"), "missing.json"),
            (("--schema", "."), "cannot be read"),
            (("--schema", '{"type":"\udcff"}'), "not JSON"),
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
        create = ("table", "create", "t", "--schema", SCHEMA)
        answer = deltasql(*create)
        assert (answer.code, "deltasql init --ledger URL --root PATH" in answer.err) == (2, True)
        assert deltasql("init", "--root", "warehouse").code == 0
        assert deltasql(*create).code == 0

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
