"""Leftovers: every file that no version refers to, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake, Table
from deltasql.errors import InvalidInputError, UnsupportedError
from deltasql.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    Metadata,
    RemoveFile,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.jsonlog import encode_commit

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("id", pa.int64()), ("_day", pa.date32())])
ANY_AGE = timedelta(0)
MONDAY = date(2026, 11, 16)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "lake")) as opened:
        yield opened


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("t", SCHEMA, partition_by=["_day"])
    made.append(rows(1, 2))
    made.delete("id = 1")
    lake.mirror()
    made.checkpoint()
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "_day": [MONDAY for _ in ids]}, schema=SCHEMA)


def folder(table: Table) -> Path:
    return Path(unquote(table.location.removeprefix("file://")))


def put(table: Table, key: str, content: bytes = b"data") -> str:
    file = folder(table) / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return key


def paths(table: Table, older_than: timedelta = ANY_AGE) -> list[str]:
    return [leftover.path for leftover in table.leftovers(older_than)]


def test_no_version_leaves_anything_over(table: Table) -> None:
    assert paths(table) == []
    table.overwrite(rows(3))
    table.delete()
    assert paths(table) == []


def test_a_file_of_no_version_is_found_with_its_size(table: Table) -> None:
    strays = [
        put(table, "part-0.parquet", b"1"),
        put(table, "_day=2026-11-16/part-0.parquet", b"22"),
        put(table, "_day=2026-11-16/ä %41.snappy.parquet", b"333"),
        put(table, "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", b"4444"),
    ]
    assert {leftover.path: leftover.size for leftover in table.leftovers(ANY_AGE)} == dict(
        zip(strays, (1, 2, 3, 4), strict=True)
    )


def test_only_what_is_old_enough_is_listed(table: Table) -> None:
    put(table, "young.parquet")
    old = put(table, "old.parquet")
    file = folder(table) / old
    written = file.stat().st_mtime - timedelta(days=8).total_seconds()
    os.utime(file, (written, written))
    # Which is what nobody asks for, since the files of a write at work look the same.
    assert [leftover.path for leftover in table.leftovers()] == [old]
    assert paths(table, timedelta(days=9)) == []
    assert len(paths(table)) == 2
    [found] = table.leftovers()
    assert timedelta(days=8) <= found.age < timedelta(days=9)
    with pytest.raises(InvalidInputError) as caught:
        table.leftovers(timedelta(seconds=-1))
    assert caught.value.field == "older_than"


def test_the_log_and_what_delta_hides_are_passed_over(table: Table) -> None:
    for key in (
        "_delta_log/x.parquet",
        "_delta_log/_sidecars/x.parquet",
        "_deltasql_quarantine/x.parquet",
        "_change_data/x.parquet",
        ".hidden/x.parquet",
        "_day=2026-11-16/_temporary/x.parquet",
        "_day=2026-11-16/.x.parquet",
        "_x.parquet",
        "README.md",
        "notes/data.csv",
        "image.bin",
    ):
        put(table, key)
    assert paths(table) == []


def test_tables_below_this_one_are_passed_over(lake: Lake, table: Table) -> None:
    below = lake.create_table("t.käse", SCHEMA)
    below.append(rows(1))
    put(table, "stranger/_delta_log/00000000000000000000.json")
    put(table, "stranger/deep/part-0.parquet")
    stray = put(below, "part-0.parquet")
    mine = put(table, "käsekuchen/part-0.parquet")
    assert paths(table) == [mine]
    assert paths(below) == [stray]


def adopted(lake: Lake, place: Path, *actions: Action) -> Table:
    """A table that another engine wrote, with these actions."""
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    protocol = TableProtocol(min_reader_version=1, min_writer_version=2)
    first = [CommitInfo({"timestamp": 1}), protocol, Metadata(id="1", schema_string=schema)]
    (place / "_delta_log").mkdir(parents=True)
    (place / "_delta_log" / f"{0:020}.json").write_bytes(encode_commit(first))
    (place / "_delta_log" / f"{1:020}.json").write_bytes(encode_commit([CommitInfo({"timestamp": 2}), *actions]))
    return lake.adopt(str(place), "adopted")


def added(path: str, **more: Any) -> AddFile:
    return AddFile(path=path, size=1, modification_time=1, data_change=True, **more)


def vector(storage_type: str, text: str) -> DeletionVector:
    return DeletionVector(storage_type=storage_type, path_or_inline_dv=text, size_in_bytes=1, cardinality=1)


def test_every_way_to_refer_to_a_file_counts(lake: Lake, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "theirs")
    table = adopted(
        lake,
        tmp_path / "theirs",
        added("a%20b.parquet"),
        added("./dir//c.parquet"),
        added(f"file:{link}/absolute%20.parquet"),
        added("v1.parquet", deletion_vector=vector("u", "ab^-aqEH.-t@S}K{vb[*k^")),
        added("v2.parquet", deletion_vector=vector("p", f"file://{link}/deletion_vector_2.bin")),
        added("v3.parquet", deletion_vector=vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")),
        RemoveFile(path="gone.parquet", data_change=True, deletion_vector=vector("u", "^-aqEH.-t@S}K{vb[*k^")),
        AddCdcFile(path="cdc.parquet", size=1, data_change=False),
    )
    for key in (
        *("a b.parquet", "dir/c.parquet", "absolute .parquet", "v1.parquet", "v2.parquet", "v3.parquet"),
        *("gone.parquet", "cdc.parquet", "deletion_vector_2.bin"),
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
    ):
        put(table, key)
    assert paths(table) == []
    # The names are compared as the store has them: these are other files.
    others = [put(table, "a%20b.parquet"), put(table, "c.parquet"), put(table, "dir/v1.parquet")]
    assert paths(table) == sorted(others)


def test_a_table_with_actions_unknown_here_is_refused(lake: Lake, tmp_path: Path) -> None:
    table = adopted(lake, tmp_path / "theirs", UnknownAction("newThing", {"file": "x.parquet"}))
    put(table, "x.parquet")
    with pytest.raises(UnsupportedError, match="newThing") as caught:
        table.leftovers(ANY_AGE)
    assert caught.value.hint


def test_a_file_that_is_committed_during_the_search_is_no_leftover(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(table, "part-9.parquet")
    store_at = type(table._services).store_at

    def slow_store(services: object, location: str) -> object:
        store = store_at(table._services, location)
        listed = list(store.list())

        def list_then_commit() -> Iterator[object]:
            yield from listed
            table.commit([added("part-9.parquet", partition_values={"_day": "2026-11-16"})])

        monkeypatch.setattr(type(store), "list", lambda _: list_then_commit())
        return store

    monkeypatch.setattr(type(table._services), "store_at", slow_store)
    assert paths(table) == []
