"""Append, overwrite, delete: what they commit, what they refuse, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from client_samples import MONDAY, SCHEMA, TUESDAY, dump, ids, objects, rows
from deltasql.client import Lake, Table
from deltasql.errors import (
    DeltaSqlError,
    InvalidInputError,
    PredicateError,
    SchemaError,
    UnsupportedError,
)
from deltasql.storage.locations import open_store

pytestmark = pytest.mark.unit


def test_appended_rows_come_back_with_their_partitions(table: Table) -> None:
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "day": MONDAY, "name": "a"},
        {"id": 2, "day": MONDAY, "name": "b"},
        {"id": 3, "day": TUESDAY, "name": None},
        {"id": 4, "day": None, "name": "d"},
    ]
    files = table.snapshot().files()
    assert files.num_rows == 3
    assert sorted(str(dict(value)) for value in files.column("partition_values").to_pylist()) == [
        "{'day': '2026-11-16'}",
        "{'day': '2026-11-17'}",
        "{'day': None}",
    ]
    (last, *_) = table.history()
    assert last.commit_info["isBlindAppend"] is True
    assert last.commit_info["operationMetrics"]["numOutputRows"] == "4"


def test_an_append_of_no_rows_is_a_version_without_files(table: Table) -> None:
    before = table.snapshot().files()
    assert table.append(SCHEMA.empty_table()).version == 2
    assert table.snapshot().files().equals(before)


def test_overwrite_replaces_everything(table: Table) -> None:
    assert table.overwrite(rows((9, MONDAY, "z"))).version == 2
    assert ids(table.to_arrow()) == [9]
    assert ids(table.to_arrow(version=1)) == [1, 2, 3, 4]
    assert table.history()[0].commit_info["isBlindAppend"] is False


def test_overwrite_where_replaces_a_part_and_rewrites_what_it_cuts(table: Table) -> None:
    table.overwrite(rows((20, MONDAY, "z"), (21, MONDAY, None)), where="day = '2026-11-16' AND id >= 2")
    assert ids(table.to_arrow()) == [1, 3, 4, 20, 21]


def test_overwrite_where_refuses_rows_outside_the_predicate(table: Table, ledger: str) -> None:
    before, files = dump(ledger), objects(table)
    with pytest.raises(InvalidInputError, match="1 of the new rows") as caught:
        table.overwrite(rows((1, MONDAY, "z"), (2, TUESDAY, "z")), where="day = '2026-11-16'")
    assert caught.value.field == "where"
    assert (dump(ledger), objects(table)) == (before, files)


def test_delete_of_a_whole_partition_touches_no_file(table: Table) -> None:
    files = objects(table)
    assert table.delete("day = DATE '2026-11-16'").version == 2
    assert ids(table.to_arrow()) == [3, 4]
    assert objects(table) == files
    metrics = table.history()[0].commit_info["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numRemovedFiles"], metrics["numAddedFiles"]) == ("2", "1", "0")


def test_delete_of_some_rows_rewrites_their_file_and_keeps_rows_that_are_unknown(table: Table) -> None:
    table.delete("name < 'b'")
    assert ids(table.to_arrow()) == [2, 3, 4]
    metrics = table.history()[0].commit_info["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"]) == ("1", "1")


def test_a_row_for_which_the_predicate_is_unknown_stays_when_its_file_is_rewritten(table: Table) -> None:
    table.append(rows((7, MONDAY, None), (8, MONDAY, "a"), (9, MONDAY, "c")))
    table.delete("name < 'b'")
    assert ids(table.to_arrow()) == [2, 3, 4, 7, 9]


def test_a_file_whose_rows_all_go_is_not_opened(table: Table) -> None:
    store = open_store(table.location)
    for path in table.snapshot().files("day = '2026-11-16'").column("path").to_pylist():
        store.delete(path)
    table.delete("day = '2026-11-16'")
    assert ids(table.to_arrow()) == [3, 4]


def test_delete_that_finds_nothing_makes_no_version(table: Table) -> None:
    assert table.delete("id > 100").version == 1
    assert table.delete("name = 'nobody'").version == 1
    assert table.version == 1


def test_delete_without_a_predicate_empties_the_table(table: Table) -> None:
    table.delete()
    assert table.to_arrow().num_rows == 0
    assert table.snapshot().files().num_rows == 0


def test_files_are_chosen_by_partition_and_statistics(table: Table) -> None:
    snapshot = table.snapshot()
    assert snapshot.files("day IS NULL").num_rows == 1
    assert snapshot.files("id > 2").num_rows == 2
    assert snapshot.files("id > 100").num_rows == 0
    assert ids(snapshot.to_arrow("id > 2 AND day IS NOT NULL")) == [3]


WRITES: list[tuple[str, Callable[[Table], object], type[DeltaSqlError], str]] = [
    ("missing column", lambda t: t.append(pa.table({"id": [1]})), SchemaError, "day"),
    ("other type", lambda t: t.append(rows().set_column(0, "id", pa.array([], pa.string()))), SchemaError, "id"),
    ("extra column", lambda t: t.append(rows().append_column("x", pa.array([], pa.int8()))), SchemaError, "x"),
    (
        "null in NOT NULL",
        lambda t: t.append(pa.table({"id": pa.array([None], pa.int64()), "day": [MONDAY], "name": ["x"]})),
        SchemaError,
        "id",
    ),
    ("no data", lambda t: t.append("rows"), InvalidInputError, "data"),
    ("unknown column", lambda t: t.delete("nope = 1"), PredicateError, "predicate"),
    ("no predicate", lambda t: t.delete("id ="), PredicateError, "predicate"),
    ("unknown column in where", lambda t: t.overwrite(rows(), where="nope = 1"), PredicateError, "predicate"),
    ("unknown column in filter", lambda t: t.to_arrow(filter="nope = 1"), PredicateError, "predicate"),
]


@pytest.mark.parametrize(("call", "kind", "field"), [w[1:] for w in WRITES], ids=[w[0] for w in WRITES])
def test_writes_that_are_refused_leave_no_row_and_no_file(
    table: Table, ledger: str, call: Callable[[Table], object], kind: type[DeltaSqlError], field: str
) -> None:
    before, files = dump(ledger), objects(table)
    with pytest.raises(kind) as caught:
        call(table)
    assert caught.value.field == field
    assert caught.value.hint
    assert (dump(ledger), objects(table)) == (before, files)


def test_an_append_only_table_only_grows(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, properties={"delta.appendOnly": "true"})
    table.append(rows((1, MONDAY, "a")))
    with pytest.raises(UnsupportedError, match="append-only"):
        table.delete("id = 1")
    with pytest.raises(UnsupportedError, match="append-only"):
        table.overwrite(rows())
    assert table.version == 1
