"""Pairs of operations that delta-rs can race: an old handle commits after another one did. What it does is recorded,
and each place where it decides otherwise than the rules here is a difference with a reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, TableFeatures, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from deltasql.protocol.actions import Action, AddFile, Metadata, RemoveFile
from deltasql.protocol.conflicts import Reads, find_conflict
from deltasql.protocol.jsonlog import decode_commit
from deltasql.protocol.paths import LOG_DIR
from deltasql.protocol.predicate import parse
from deltasql.protocol.schema import parse_schema
from deltasql.protocol.skipping import facts_from, may_match

pytestmark = pytest.mark.e2e


def rows(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids))})


def append(*ids: int, p: str = "a", app: str | None = None) -> Callable[[DeltaTable], object]:
    marker = CommitProperties(app_transactions=[Transaction(app, 1)]) if app else None
    return lambda table: write_deltalake(table, rows(*ids, p=p), mode="append", commit_properties=marker)


def commit_actions(table: DeltaTable) -> None:
    file = AddAction("p=a/x.parquet", 1, {"p": "a"}, 1, True, '{"numRecords":1}')
    table.create_write_transaction([file], mode="append", schema=table.schema(), partition_by=["p"])


def merge(table: DeltaTable) -> None:
    join = table.merge(rows(1), "t.id = s.id AND t.p = 'a'", source_alias="s", target_alias="t")
    join.when_matched_delete().execute()


def set_property(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})


def overwrite(where: str | None = None) -> Callable[[DeltaTable], object]:
    return lambda table: write_deltalake(table, rows(7), mode="overwrite", predicate=where)


def add_feature(table: DeltaTable) -> None:
    table.alter.add_feature(TableFeatures.AppendOnly, allow_protocol_versions_increase=True)


class Operation(NamedTuple):
    """What delta-rs is asked to do, and which rows it has to look at: None for none, 'true' for all."""

    run: Callable[[DeltaTable], object]
    where: str | None = None


OPERATIONS = {
    "append to a": Operation(append(5)),
    "append to b": Operation(append(5, p="b")),
    "append as an application": Operation(append(5, app="app")),
    "actions": Operation(commit_actions),
    "delete in a": Operation(lambda table: table.delete("p = 'a'"), "p = 'a'"),
    "delete in b": Operation(lambda table: table.delete("p = 'b'"), "p = 'b'"),
    "delete of an id": Operation(lambda table: table.delete("id = 1"), "id = 1"),
    "delete of all": Operation(lambda table: table.delete(), "true"),
    "update in a": Operation(lambda table: table.update(updates={"id": "id + 1"}, predicate="p = 'a'"), "p = 'a'"),
    "merge into a": Operation(merge, "p = 'a'"),
    "overwrite": Operation(overwrite(), "true"),
    "overwrite of a": Operation(overwrite("p = 'a'"), "p = 'a'"),
    "compaction": Operation(lambda table: table.optimize.compact()),
    "property": Operation(set_property),
    "feature": Operation(add_feature),
}
LOOKS_AT_NOTHING = ("append to a", "append to b", "append as an application", "actions", "property", "feature")
APPENDS = LOOKS_AT_NOTHING[:4]
REMOVALS = (
    *("delete in a", "delete in b", "delete of an id", "delete of all"),
    *("update in a", "merge into a", "overwrite", "overwrite of a"),
)

# What the second operation is, what the first one was, who refuses the second, and why the other does not.
DIFFERENCES: dict[tuple[str, str], str] = {
    (mine, winner): refused_by
    for losers, winners, refused_by, _why in (
        (
            *(LOOKS_AT_NOTHING, REMOVALS, "delta-rs"),
            "delta-rs takes whoever names no predicate for a reader of the whole table when files were removed",
        ),
        (("compaction",), ("delete in b",), "delta-rs", "the same: the compaction touches partition a only"),
        (
            *(("delete of all", "overwrite"), APPENDS, "deltasql"),
            "delta-rs checks no appended file against whoever names no predicate: the new rows outlive a delete of all",
        ),
        (
            *(("delete of all", "overwrite", "compaction"), ("compaction",), "deltasql"),
            "delta-rs checks no file that was removed without a change of data: the compacted rows stay, or double",
        ),
    )
    for mine in losers
    for winner in winners
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files in partition a, one in b. Nobody writes to it afterwards."""
    assert version("deltalake").startswith("1.6")
    folder = tmp_path_factory.mktemp("base") / "table"
    write_deltalake(folder, pa.concat_tables([rows(1), rows(10, p="b")]), partition_by=["p"])
    write_deltalake(folder, rows(2), mode="append")
    return folder


def written(folder: Path, version: int) -> list[Action]:
    return decode_commit((folder / LOG_DIR / f"{version:020d}.json").read_bytes())


def alone(base: Path, folder: Path, operation: Operation) -> list[Action]:
    """What an operation commits when nobody is in its way."""
    shutil.copytree(base, folder)
    operation.run(DeltaTable(folder))
    return written(folder, 2)


def ours(base: Path, operation: Operation, mine: list[Action], winner: list[Action]) -> bool:
    """Whether the rules here refuse it."""
    start = [action for version in (0, 1) for action in written(base, version)]
    structure = parse_schema(next(action.schema_string for action in start if isinstance(action, Metadata)))

    def matches(file: AddFile) -> bool:
        return operation.where is not None and may_match(
            parse(operation.where, structure), facts_from(file, structure, ["p"])
        )

    removed = {action.path for action in mine if isinstance(action, RemoveFile)}
    files = [file for file in start if isinstance(file, AddFile) and (matches(file) or file.path in removed)]
    reads = Reads(
        whole_table=operation.where == "true",
        files=frozenset((file.path, file.dv_id) for file in files),
        may_match=None if operation.where is None else matches,
    )
    return find_conflict("t", reads, mine, [(2, winner)]) is not None


def theirs(base: Path, folder: Path, operation: Operation, winner: Operation) -> bool:
    """Whether delta-rs refuses it."""
    shutil.copytree(base, folder)
    old = DeltaTable(folder)
    winner.run(DeltaTable(folder))
    try:
        operation.run(old)
    except CommitFailedError:
        return True
    assert DeltaTable(folder).version() == 3
    return False


def test_delta_rs_agrees_but_for_the_differences(base: Path, tmp_path: Path) -> None:
    commits = {name: alone(base, tmp_path / name, operation) for name, operation in OPERATIONS.items()}
    found: dict[tuple[str, str], tuple[bool, bool]] = {}
    for mine, operation in OPERATIONS.items():
        for winner, other in OPERATIONS.items():
            folder = tmp_path / f"{mine} after {winner}"
            found[mine, winner] = (
                ours(base, operation, commits[mine], commits[winner]),
                theirs(base, folder, operation, other),
            )
    assert len(found) == 15 * 15
    refused_by = {pair: "deltasql" if here else "delta-rs" for pair, (here, there) in found.items() if here != there}
    assert refused_by == DIFFERENCES
    assert len(DIFFERENCES) == 60


def test_delta_rs_doubles_rows_where_the_rules_here_refuse(base: Path, tmp_path: Path) -> None:
    compaction = OPERATIONS["compaction"]
    assert theirs(base, tmp_path / "t", compaction, compaction) is False
    assert sorted(DeltaTable(tmp_path / "t").to_pyarrow_table()["id"].to_pylist()) == [1, 1, 2, 2, 10]
    commit = alone(base, tmp_path / "alone", compaction)
    assert ours(base, compaction, commit, commit)
