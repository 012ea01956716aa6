"""What a caller may say of a commit: what it is known by when it is tried again, and against whom it may lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake, Table
from deltasql.errors import ConflictError, InvalidInputError
from deltasql.outcomes import Committed
from deltasql.protocol.actions import AddFile, CommitInfo, SetTransaction

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1, 2]})
FILE = AddFile(path="f", partition_values={}, size=1, modification_time=1, data_change=True, stats='{"numRecords":1}')


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    table = lake.create_table("t", ROWS.schema)
    table.append(ROWS)
    return table


VERBS: dict[str, Callable[..., Committed]] = {
    "append": lambda table, **terms: table.append(ROWS, **terms),
    "overwrite": lambda table, **terms: table.overwrite(ROWS, **terms),
    "delete": lambda table, **terms: table.delete("id = 1", **terms),
    "commit": lambda table, **terms: table.commit([FILE], **terms),
}


@pytest.mark.parametrize("terms", [{"token": "job-7"}, {"txn": ("job", 7)}], ids=["token", "txn"])
@pytest.mark.parametrize("verb", VERBS)
def test_what_was_committed_is_not_committed_again(table: Table, verb: str, terms: dict[str, Any]) -> None:
    first = VERBS[verb](table, **terms)
    assert (first.version, first.replayed) == (2, False)
    table.append(ROWS)
    # The rows it would delete may be other ones by now: it is the same commit all the same.
    again = VERBS[verb](table, **terms)
    assert again == Committed(table="t", version=2, timestamp=first.timestamp, replayed=True)
    assert table.version == 3


def test_an_earlier_count_of_an_application_is_not_committed_either(table: Table) -> None:
    table.append(ROWS, txn=("job", 7))
    assert table.append(ROWS, txn=("job", 6)).version == 2
    assert table.append(ROWS, txn=("job", 8)).version == 3
    assert table.append(ROWS, txn=("other", 1)).version == 4
    assert {txn.app_id: txn.version for txn in transactions(table)} == {"job": 8, "other": 1}


def transactions(table: Table) -> list[SetTransaction]:
    return table._services.reader.transactions(table._entry, table.version)


def test_a_transaction_over_many_tables_is_known_by_one_count(lake: Lake, table: Table) -> None:
    lake.create_table("u", ROWS.schema)

    def both() -> tuple[Committed, ...]:
        with lake.transaction(txn=("job", 1)) as tx:
            tx.table("t").append(ROWS)
            tx.table("u").append(ROWS)
        return tx.result

    first = both()
    assert [(each.table, each.version, each.replayed) for each in first] == [("t", 2, False), ("u", 1, False)]
    assert [(each.version, each.group_id, each.replayed) for each in both()] == [
        (each.version, each.group_id, True) for each in first
    ]


@pytest.mark.parametrize("txn", [("job",), ("job", "7"), "job", (1, 1)], ids=str)
def test_a_txn_is_a_name_and_a_number(table: Table, txn: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.append(ROWS, txn=txn)
    assert caught.value.field == "txn"
    assert table.version == 1


def test_an_isolation_level_is_one_of_two(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="WriteSerializable") as caught:
        table.delete("id = 1", isolation="SnapshotIsolation")  # pyright: ignore[reportArgumentType]
    assert caught.value.field == "isolation"


@pytest.mark.parametrize("isolation", ["Serializable", "WriteSerializable"])
def test_a_weaker_isolation_overlooks_appends_that_looked_at_nothing(
    lake: Lake, table: Table, isolation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = table.snapshot()
    table.append(pa.table({"id": [1]}))
    # The deletion is worked out on what stood before the append.
    monkeypatch.setattr(table, "snapshot", lambda: snapshot)
    if isolation == "Serializable":
        with pytest.raises(ConflictError) as caught:
            table.delete("id = 1", isolation=isolation)
        assert caught.value.conflict.reason == "concurrent_append"
        assert table.version == 2
    else:
        assert table.delete("id = 1", isolation=isolation).version == 3
        assert info(table, 3)["isolationLevel"] == "WriteSerializable"


def info(table: Table, version: int) -> dict[str, Any]:
    (commit,) = table._services.reader.commits(table._entry, version, version)
    first = commit.actions[0]
    assert isinstance(first, CommitInfo)
    return dict(first.fields)


def test_a_commit_for_a_version_its_engine_read_is_not_called_blind(table: Table) -> None:
    table.commit([FILE])
    table.commit(
        [AddFile(path="g", partition_values={}, size=1, modification_time=1, data_change=True)], read_version=2
    )
    assert [info(table, version)["isBlindAppend"] for version in (1, 2, 3)] == [True, True, False]


def test_a_file_that_was_removed_meanwhile_is_not_brought_back_by_describing_it_again(table: Table) -> None:
    (add,) = table.snapshot().adds()
    again = AddFile(
        path=add.path,
        partition_values={},
        size=add.size,
        modification_time=add.modification_time,
        data_change=False,
        stats=add.stats,
        tags={"k": "v"},
    )
    table.delete()
    with pytest.raises(ConflictError) as caught:
        table.commit([again], read_version=1)
    assert caught.value.conflict.reason == "concurrent_delete_read"
