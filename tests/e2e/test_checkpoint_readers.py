"""Foreign readers open a table from our checkpoint once the commits before it are gone, and see the same rows."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files as package_files
from pathlib import Path

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from deltasql.log.reader import read_checkpoint, read_commits
from deltasql.log.segment import list_segment
from deltasql.log.writer import DeltaLog
from deltasql.protocol.jsonlog import decode_commit
from deltasql.protocol.replay import Replay
from deltasql.storage.local import LocalFiles
from log_samples import state_of

pytestmark = pytest.mark.e2e

Rows = list[tuple[int | None, str | None, str | None]]


def with_deltalake(folder: Path) -> Rows:
    table = DeltaTable(folder).to_pyarrow_table()
    return [(row["id"], row["p"], row["text"]) for row in table.to_pylist()]


def with_polars(folder: Path) -> Rows:
    return pl.scan_delta(str(folder)).select("id", "p", "text").collect().rows()


def with_duckdb(folder: Path) -> Rows:
    # Loaded by its path: nothing is downloaded, and nothing is put into the home folder.
    (extension,) = Path(str(package_files("duckdb_extension_delta"))).rglob("delta.duckdb_extension")
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        return connection.execute("SELECT id, p, text FROM delta_scan(?)", [str(folder)]).fetchall()


READERS: dict[str, Callable[[Path], Rows]] = {
    "deltalake": with_deltalake,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


def write_table(folder: Path) -> Rows:
    """Ten versions by another writer, with partitions that need escaping, deletes and transaction identifiers."""
    for number in range(8):
        data = pa.table(
            {
                "id": [number * 10, number * 10 + 1, number * 10 + 2],
                "p": ["a b/c%d:e", None, "ü"],
                "text": ["x", None, '"quoted"'],
            }
        )
        done = CommitProperties(app_transactions=[Transaction("loader", number)])
        write_deltalake(folder, data, partition_by=["p"], mode="append", commit_properties=done)
    DeltaTable(folder).delete("id in (10, 21)")
    DeltaTable(folder).delete("p = 'ü' and id > 70")
    gone = {10, 21, 72}
    return [
        (number * 10 + offset, partition, text)
        for number in range(8)
        for offset, (partition, text) in enumerate([("a b/c%d:e", "x"), (None, None), ("ü", '"quoted"')])
        if number * 10 + offset not in gone
    ]


def checkpoint(folder: Path, version: int, **properties: str) -> None:
    """Checkpoint what the commits say, as if the table had these properties too."""
    store = LocalFiles(folder)
    replay = Replay()
    for number, data in read_commits(store, list_segment(store), 0, version):
        replay.apply(decode_commit(data, source=str(number)))
    state = state_of(replay, version)
    metadata = msgspec.structs.replace(state.metadata, configuration={**state.metadata.configuration, **properties})
    DeltaLog(store).write_checkpoint(msgspec.structs.replace(state, metadata=metadata))


def forget_commits(folder: Path, *, before: int) -> None:
    for number in range(before):
        (folder / "_delta_log" / f"{number:020}.json").unlink()


@pytest.mark.parametrize("version", [5, 8, 9])
@pytest.mark.parametrize("reader", list(READERS))
def test_rows_are_the_same_once_early_commits_are_gone(tmp_path: Path, reader: str, version: int) -> None:
    folder = tmp_path / "table"
    expected = sorted(write_table(folder))
    assert sorted(READERS[reader](folder)) == expected
    checkpoint(folder, version)
    forget_commits(folder, before=version)
    assert sorted(READERS[reader](folder)) == expected


@pytest.mark.parametrize("reader", list(READERS))
def test_the_checkpoint_is_enough_alone(tmp_path: Path, reader: str) -> None:
    folder = tmp_path / "table"
    expected = sorted(write_table(folder))
    checkpoint(folder, 9)
    forget_commits(folder, before=10)
    assert sorted(READERS[reader](folder)) == expected


@pytest.mark.parametrize(
    "setting",
    [
        "delta.parquet.compression.codec=zstd",
        "delta.parquet.compression.codec=gzip",
        "delta.parquet.compression.codec=lz4_raw",
        "delta.parquet.compression.codec=none",
        "delta.checkpoint.writeStatsAsJson=false",
    ],
)
@pytest.mark.parametrize("reader", list(READERS))
def test_a_checkpoint_shaped_by_a_property_is_read(tmp_path: Path, reader: str, setting: str) -> None:
    folder = tmp_path / "table"
    data = pa.table({"id": [1], "p": ["a"], "text": ["x"]})
    for _ in range(2):
        write_deltalake(folder, data, mode="append")
    name, _, value = setting.partition("=")
    checkpoint(folder, 1, **{name: value})
    forget_commits(folder, before=1)
    assert READERS[reader](folder) == [(1, "a", "x"), (1, "a", "x")]


def test_another_writer_goes_on_from_our_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    before = len(write_table(folder))
    checkpoint(folder, 9)
    forget_commits(folder, before=9)
    write_deltalake(folder, pa.table({"id": [1000], "p": ["new"], "text": ["y"]}), mode="append")
    table = DeltaTable(folder)
    assert table.version() == 10
    assert table.transaction_version("loader") == 7
    assert len(table.to_pyarrow_table()) == before + 1


def test_we_read_the_checkpoint_of_another_writer(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    write_table(folder)
    store = LocalFiles(folder)
    replay = Replay()
    for _, data in read_commits(store, list_segment(store), 0, 9):
        replay.apply(decode_commit(data))
    DeltaTable(folder).create_checkpoint()
    (theirs,) = list_segment(store).checkpoints
    found = Replay().apply(read_checkpoint(store, theirs))
    assert (found.protocol, found.metadata) == (replay.protocol, replay.metadata)
    assert found.transactions == replay.transactions
    assert found.files.keys() == replay.files.keys()
    assert found.tombstones.keys() == replay.tombstones.keys()
    assert {file.stats for file in found.files.values()} == {file.stats for file in replay.files.values()}
