"""Verbs that change a table as a whole, and what `partitions`, `files` and `describe` count."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cli_samples import SCHEMA, Deltasql, files_below, ledger_rows, write_orders

pytestmark = pytest.mark.unit


def properties(lake: Deltasql) -> dict[str, str]:
    return lake("table", "describe", "t", "--json").document["properties"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody who can be asked, what they were asked, and who says no unless told otherwise."""
    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    def confirm(text: str, **options: Any) -> bool:
        assert options == {"err": True}
        asked.append(text)
        return len(asked) > 1

    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


class TestCounts:
    def test_each_partition_has_its_files_bytes_and_rows(self, lake: Deltasql, tmp_path: Path) -> None:
        lake("table", "append", "t", str(write_orders(tmp_path / "more.parquet")))
        found = lake("table", "partitions", "t", "--json").document
        assert (found["table"], found["version"], found["partition_columns"]) == ("t", 2, ["day"])
        sizes = {
            day: sum(path.stat().st_size for path in (tmp_path / f"warehouse/t/day={day}").iterdir()) for day in "ab"
        }
        assert found["partitions"] == [
            {"values": {"day": "a"}, "files": 2, "bytes": sizes["a"], "rows": 4},
            {"values": {"day": "b"}, "files": 2, "bytes": sizes["b"], "rows": 2},
        ]
        lines = [line.split() for line in lake("table", "partitions", "t").out.splitlines()]
        assert lines == [
            ["day", "files", "bytes", "rows"],
            ["a", "2", str(sizes["a"]), "4"],
            ["b", "2", str(sizes["b"]), "2"],
        ]
        old = lake("table", "partitions", "t", "--version", "1", "--filter", "day = 'b'", "--json").document
        assert [(each["values"], each["files"]) for each in old["partitions"]] == [({"day": "b"}, 1)]
        assert lake("table", "partitions", "t", "--version", "0", "--json").document["partitions"] == []
        files = lake("table", "files", "t", "--json").document
        assert (files["bytes"], files["rows"], len(files["files"])) == (sum(sizes.values()), 6, 4)
        described = lake("table", "describe", "t", "--json").document
        assert (described["bytes"], described["rows"], described["files"]) == (sum(sizes.values()), 6, 4)

    def test_a_table_without_partition_columns_is_one(self, lake: Deltasql, tmp_path: Path) -> None:
        lake("table", "create", "u", "--schema", SCHEMA)
        lake("table", "append", "u", str(tmp_path / "orders.parquet"))
        (only,) = lake("table", "partitions", "u", "--json").document["partitions"]
        assert (only["values"], only["files"], only["rows"]) == ({}, 1, 3)


class TestProperties:
    def test_they_are_set_and_unset(self, lake: Deltasql) -> None:
        answer = lake("table", "set", "t", "delta.checkpointInterval=7", "team=a=b", "empty=", "--json")
        assert (answer.code, answer.document["version"]) == (0, 2)
        assert properties(lake).items() >= {"delta.checkpointInterval": "7", "team": "a=b", "empty": ""}.items()
        answer = lake("table", "unset", "t", "team", "empty")
        assert (answer.code, answer.out.splitlines()[:2]) == (0, ["table    t", "version  3"])
        assert not {"team", "empty"} & set(properties(lake))
        assert lake("table", "unset", "t", "team", "--if-exists", "--json").document["version"] == 3
        history = lake("table", "history", "t", "--limit", "2", "--json").document["commits"]
        assert [each["operation"] for each in history] == ["UNSET TBLPROPERTIES", "SET TBLPROPERTIES"]

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("set", "t", "novalue"), 2, "'novalue' is no property"),
            (("set", "t", "a=1", "a=2"), 2, "given twice"),
            (("set", "t", "delta.nope=1"), 2, "delta.nope"),
            (("set", "t", "delta.appendOnly=maybe"), 2, "'maybe'"),
            (("set", "nope", "a=1"), 1, "no table 'nope'"),
            (("set", "t"), 2, "KEY=VALUE"),
            (("unset", "t", "a"), 1, "no property 'a'"),
            (("unset", "t"), 2, "KEY"),
        ],
    )
    def test_what_is_refused_changes_nothing(
        self, lake: Deltasql, words: tuple[str, ...], code: int, said: str
    ) -> None:
        answer = lake("table", *words)
        assert (answer.code, answer.out) == (code, "")
        assert said in answer.err
        assert lake("table", "describe", "t", "--json").document["version"] == 1


class TestConstraints:
    def test_one_is_added_and_dropped(self, lake: Deltasql) -> None:
        assert lake("table", "constraint", "add", "t", "positive", "id > 0", "--json").document["version"] == 2
        assert properties(lake)["delta.constraints.positive"] == "id > 0"
        assert "checkConstraints" in lake("table", "describe", "t", "--json").document["features"]
        assert lake("table", "constraint", "drop", "t", "positive").code == 0
        assert "delta.constraints.positive" not in properties(lake)
        assert lake("table", "constraint", "drop", "t", "positive", "--if-exists", "--json").document["version"] == 3

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("add", "t", "c", "id > 1"), 2, "break the constraint 'c' (id > 1); the first has id = 1"),
            (("add", "t", "c", "nope > 1"), 2, "nope"),
            (("add", "t", "not a name", "id > 0"), 2, "'not a name'"),
            (("drop", "t", "c"), 1, "no constraint 'c'"),
        ],
    )
    def test_what_is_refused_changes_nothing(
        self, lake: Deltasql, words: tuple[str, ...], code: int, said: str
    ) -> None:
        answer = lake("table", "constraint", *words)
        assert (answer.code, answer.out) == (code, "")
        assert said in answer.err
        assert lake("table", "describe", "t", "--json").document["version"] == 1


class TestRename:
    def test_the_name_changes_and_the_place_stays(self, lake: Deltasql, tmp_path: Path) -> None:
        files = files_below(tmp_path)
        answer = lake("table", "rename", "t", "sales.u", "--json")
        place = f"file://{tmp_path}/warehouse/t"
        assert answer.document == {"name": "sales.u", "before": "t", "location": place}
        (only,) = lake("table", "list", "--json").document["tables"]
        assert (only["name"], only["version"], only["location"]) == ("sales.u", 1, place)
        assert files_below(tmp_path) == files
        (act, *_) = lake("audit", "sales.u", "--json").document
        assert (act["action"], act["detail"]) == ("rename", {"before": "t"})
        assert lake("table", "describe", "t").code == 1
        assert lake("table", "rename", "t", "u").code == 1

    def test_a_taken_name_is_refused(self, lake: Deltasql) -> None:
        lake("table", "create", "u", "--schema", SCHEMA)
        answer = lake("table", "rename", "t", "u")
        assert (answer.code, answer.out) == (1, "")
        assert "'u' exists already" in answer.err


class TestDrop:
    def test_without_data_the_files_stay(self, lake: Deltasql, tmp_path: Path) -> None:
        lake("mirror", "once")
        files = files_below(tmp_path)
        answer = lake("table", "drop", "t", "--yes")
        place = f"file://{tmp_path}/warehouse/t"
        assert (answer.code, answer.out) == (0, f"dropped   t\nversion   1\nlocation  {place}\n")
        assert files_below(tmp_path) == files
        left = {name: count for name, count in ledger_rows(tmp_path / "lake.db").items() if count}
        assert left == {"dl_lake": 1, "dl_audit": 1, "dl_schema_version": 1}
        assert lake("adopt", "warehouse/t", "--name", "again").code == 0

    def test_with_data_the_folder_goes(self, lake: Deltasql, tmp_path: Path) -> None:
        lake("mirror", "once")
        count = sum(path.is_file() for path in (tmp_path / "warehouse/t").rglob("*"))
        report = lake("table", "drop", "t", "--data", "-y", "--json").document
        assert (report["table"], report["version"], report["unpublished"], report["files"]) == ("t", 1, 0, count)
        assert list((tmp_path / "warehouse").iterdir()) == []
        assert lake("table", "create", "t", "--schema", SCHEMA).code == 0

    def test_versions_that_are_not_in_the_log_need_force(self, lake: Deltasql) -> None:
        answer = lake("table", "drop", "t", "--yes")
        assert (answer.code, "deltasql mirror once t" in answer.err) == (2, True)
        answer = lake("table", "drop", "t", "--yes", "--force")
        assert (answer.code, "lost      2 versions" in answer.out) == (0, True)

    def test_somebody_is_asked(self, lake: Deltasql, tmp_path: Path, terminal: list[str]) -> None:
        lake("mirror", "once")
        assert lake("table", "drop", "t") == (1, "", "error: nothing was dropped\n")
        assert len(lake("table", "list", "--json").document["tables"]) == 1
        assert lake("table", "drop", "t", "--data", "--json").document["table"] == "t"
        place = f"file://{tmp_path}/warehouse/t"
        assert terminal == [f"Drop table t and leave {place} as it is?", f"Drop table t and remove {place}?"]

    def test_where_nobody_can_be_asked_it_must_be_said(self, lake: Deltasql, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
        answer = lake("table", "drop", "t", "--force")
        assert (answer.code, answer.out, "--yes" in answer.err) == (2, "", True)
        assert len(lake("table", "list", "--json").document["tables"]) == 1
        assert lake("table", "drop", "nope").code == 1
