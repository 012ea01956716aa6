"""Log to ledger and back: adopted tables come out of a rebuild with the bytes that went in."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake
from deltasql.errors import (
    DeltaSqlError,
    ForeignCommitError,
    InvalidInputError,
    MalformedLogError,
    TableExistsError,
    UnsupportedError,
)

pytestmark = pytest.mark.e2e

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [f"p {number % 2}" for number in ids]}, schema=SCHEMA)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as opened:
        yield opened


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A table that delta-rs wrote: 0 create + append, 1 append, 2 delete, 3 overwrite."""
    path = tmp_path / "foreign table"
    deltalake.write_deltalake(path, rows(1, 2, 3, 4), partition_by=["p"])
    deltalake.write_deltalake(path, rows(5, 6), mode="append")
    deltalake.DeltaTable(path).delete("id = 5")
    deltalake.write_deltalake(path, rows(7, 8), mode="overwrite")
    return path


def commits(table: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (table / "_delta_log").glob("*.json")}


def ids(data: pa.Table) -> list[int]:
    return sorted(data.column("id").to_pylist())


def read(path: Path | str, version: int | None = None) -> list[int]:
    return ids(pa.table(deltalake.DeltaTable(path, version=version).to_pyarrow_table()))


def count_rows(tmp_path: Path) -> dict[str, int]:
    with sqlite3.connect(tmp_path / "lake.db") as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names}


def test_a_table_of_delta_rs_is_adopted_with_its_history(lake: Lake, foreign: Path) -> None:
    before = commits(foreign)
    table = lake.adopt(str(foreign), "old")
    assert table.location == foreign.as_uri()
    assert table.version == 3
    for version in range(4):
        assert ids(table.to_arrow(version=version)) == read(foreign, version)
    assert commits(foreign) == before
    assert [entry.mirror for entry in table.history()] == ["SUCCESS"] * 4
    times = [entry.timestamp for entry in table.history()]
    assert times == sorted(set(times), reverse=True)


def test_file_times_that_go_back_do_not_bend_the_history(lake: Lake, foreign: Path) -> None:
    for version, seconds in enumerate((1_000, 500, 500, 2_000)):
        os.utime(foreign / "_delta_log" / f"{version:020d}.json", (seconds, seconds))
    table = lake.adopt(str(foreign), "old")
    assert [entry.timestamp for entry in reversed(table.history())] == [1_000_000, 1_000_001, 1_000_002, 2_000_000]


def test_adopt_then_rebuild_gives_the_same_bytes(lake: Lake, foreign: Path, tmp_path: Path) -> None:
    lake.adopt(foreign.as_uri(), "old")
    report = lake.rebuild("old", to=str(tmp_path / "elsewhere"))
    assert (report.first_version, report.last_version, report.written) == (0, 3, 4)
    assert commits(tmp_path / "elsewhere") == commits(foreign)


def test_publishing_goes_on_in_place_and_delta_rs_reads_it(lake: Lake, foreign: Path) -> None:
    before = commits(foreign)
    table = lake.adopt(str(foreign), "old")
    assert table.append(rows(9)).version == 4
    table.delete("id = 7")
    assert lake.mirror().ok
    assert read(foreign) == [8, 9] == ids(table.to_arrow())
    after = commits(foreign)
    assert {name: after[name] for name in before} == before


def test_a_history_that_begins_with_a_checkpoint(lake: Lake, foreign: Path, tmp_path: Path) -> None:
    deltalake.DeltaTable(foreign).create_checkpoint()
    deltalake.write_deltalake(foreign, rows(9), mode="append")
    for version in range(3):
        (foreign / "_delta_log" / f"{version:020d}.json").unlink()
    table = lake.adopt(str(foreign), "old")
    assert ids(table.to_arrow()) == [7, 8, 9]
    assert ids(table.to_arrow(version=3)) == [7, 8]
    with pytest.raises(DeltaSqlError, match="from version 3"):
        table.snapshot(version=2)
    report = lake.rebuild("old", to=str(tmp_path / "elsewhere"))
    assert (report.first_version, report.checkpoint_version) == (3, 4)
    assert commits(tmp_path / "elsewhere") == commits(foreign)
    for parquet in foreign.rglob("*.parquet"):
        if "_delta_log" not in parquet.parts:
            target = tmp_path / "elsewhere" / parquet.relative_to(foreign)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(parquet, target)
    assert read(tmp_path / "elsewhere") == [7, 8, 9]


def test_a_deleted_or_altered_commit_comes_back_identical(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t", SCHEMA)
    for number in range(4):
        table.append(rows(number))
    lake.mirror()
    place = tmp_path / "warehouse" / "t"
    original = commits(place)
    (place / "_delta_log" / f"{2:020d}.json").unlink()
    report = lake.rebuild("t")
    assert (report.written, report.unchanged, report.replaced) == (1, 4, ())
    assert commits(place) == original

    (place / "_delta_log" / f"{3:020d}.json").write_bytes(original[f"{3:020d}.json"][:-20])
    with pytest.raises(ForeignCommitError, match="version 3") as caught:
        lake.rebuild("t")
    assert "force" in (caught.value.hint or "")
    report = lake.rebuild("t", force=True)
    assert report.replaced == (3,)
    assert commits(place) == original
    (aside,) = (place / "_deltasql_quarantine").rglob("*.json")
    assert aside.read_bytes() == original[f"{3:020d}.json"][:-20]
    assert read(place) == [0, 1, 2, 3]


def test_only_published_versions_are_rebuilt(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t", SCHEMA)
    lake.mirror()
    table.append(rows(1))
    assert lake.rebuild("t", to=str(tmp_path / "elsewhere")).last_version == 0
    assert list(commits(tmp_path / "elsewhere")) == [f"{0:020d}.json"]


def test_a_place_that_is_not_empty_is_refused(lake: Lake, foreign: Path) -> None:
    lake.create_table("t", SCHEMA)
    lake.mirror()
    before = commits(foreign)
    with pytest.raises(TableExistsError, match="force"):
        lake.rebuild("t", to=str(foreign))
    with pytest.raises(ForeignCommitError):
        lake.rebuild("t", to=str(foreign), force=True)
    assert commits(foreign) == before


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


BROKEN = {
    "a malformed line": (lambda log: (log / f"{1:020d}.json").write_bytes(b'{"add":{}}\n'), MalformedLogError),
    "a cut line": (lambda log: cut(log / f"{3:020d}.json"), MalformedLogError),
    "a gap": (lambda log: (log / f"{1:020d}.json").unlink(), MalformedLogError),
    "no beginning": (lambda log: (log / f"{0:020d}.json").unlink(), MalformedLogError),
    "no protocol": (
        lambda log: (log / f"{0:020d}.json").write_bytes(b'{"commitInfo":{}}\n'),
        MalformedLogError,
    ),
    "a future protocol": (
        lambda log: (log / f"{4:020d}.json").write_bytes(b'{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}'),
        UnsupportedError,
    ),
    "two metaData": (
        lambda log: (log / f"{4:020d}.json").write_bytes(b'{"metaData":{"id":"a","schemaString":"{}"}}\n' * 2),
        MalformedLogError,
    ),
    "no log": (shutil.rmtree, DeltaSqlError),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_log_is_refused_and_nothing_of_it_stays(lake: Lake, foreign: Path, tmp_path: Path, name: str) -> None:
    damage, kind = BROKEN[name]
    damage(foreign / "_delta_log")
    before = count_rows(tmp_path)
    with pytest.raises(kind) as caught:
        lake.adopt(str(foreign), "old")
    assert caught.value.hint
    assert count_rows(tmp_path) == before
    assert lake.tables() == []


def test_a_name_or_a_place_is_adopted_once(lake: Lake, foreign: Path) -> None:
    lake.adopt(str(foreign), "old")
    with pytest.raises(TableExistsError, match="location of table 'old'"):
        lake.adopt(str(foreign), "again")
    with pytest.raises(TableExistsError, match="'old' exists"):
        lake.adopt(str(foreign), "old")
    with pytest.raises(InvalidInputError):
        lake.adopt(str(foreign), "a/b")
