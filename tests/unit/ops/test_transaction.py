"""Conflicts, transactions over many tables, and commits of other engines."""

from __future__ import annotations

import pytest

from client_samples import MONDAY, SCHEMA, TUESDAY, dump, ids, rows
from deltasql.client import Lake, Table
from deltasql.errors import (
    ConflictError,
    DeltaSqlError,
    InvalidInputError,
    MalformedLogError,
)
from deltasql.ops.write import draft_append, draft_delete
from deltasql.protocol.actions import AddFile, CommitInfo, RemoveFile, SetTransaction

pytestmark = pytest.mark.unit


def test_a_delete_that_lost_a_race_is_a_typed_conflict_and_an_append_is_not(table: Table) -> None:
    services, entry, snapshot = table._services, table._entry, table.snapshot()
    late_append = draft_append(services, entry, snapshot, rows((6, MONDAY, "f")))
    late_delete = draft_delete(services, entry, snapshot, "id = 1")
    assert late_delete is not None
    table.delete("id = 2")
    with pytest.raises(ConflictError) as caught:
        services.commit([late_delete])
    assert caught.value.conflict.winning_version == 2
    assert caught.value.conflict.reason == "concurrent_delete_delete"
    assert services.commit([late_append])[0].version == 3
    assert ids(table.to_arrow()) == [1, 3, 4, 6]


def test_a_file_that_was_read_and_kept_must_not_have_been_removed_meanwhile(table: Table) -> None:
    """The delete looked into Monday's file, found that row 1 stays, and so depends on it."""
    table.append(rows((9, TUESDAY, "a")))
    services, entry, snapshot = table._services, table._entry, table.snapshot()
    late = draft_delete(services, entry, snapshot, "name = 'a' AND id > 1")
    assert late is not None
    table.delete("day = '2026-11-16'")
    with pytest.raises(ConflictError) as caught:
        services.commit([late])
    assert caught.value.conflict.reason == "concurrent_delete_read"


def test_a_transaction_commits_to_all_its_tables_at_one_instant(lake: Lake, table: Table) -> None:
    other = lake.create_table("other", SCHEMA)
    with lake.transaction() as tx:
        tx.table("sales.orders").append(rows((5, MONDAY, "e")))
        tx.table("sales.orders").append(rows((6, MONDAY, "f")))
        tx.table("other").append(rows((7, MONDAY, "g")))
    first, second = tx.result
    assert (first.version, second.version) == (2, 1)
    assert first.timestamp == second.timestamp
    assert first.group_id == second.group_id is not None
    tags = table.history()[0].commit_info["tags"]
    assert tags["deltasql.groupId"] == first.group_id
    assert tags["deltasql.participants"] == '{"sales.orders":2,"other":1}'
    assert ids(table.to_arrow()) == [1, 2, 3, 4, 5, 6]
    assert ids(other.to_arrow()) == [7]


def test_a_transaction_that_raises_commits_nothing(lake: Lake, table: Table, ledger: str) -> None:
    before = dump(ledger)

    def fail_half_way() -> None:
        with lake.transaction() as tx:
            tx.table("sales.orders").append(rows((5, MONDAY, "e")))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert dump(ledger) == before


def test_a_transaction_that_conflicts_on_one_table_commits_to_none(lake: Lake, table: Table) -> None:
    other = lake.create_table("other", SCHEMA)
    tx = lake.transaction().__enter__()
    tx.table("other").append(rows((7, MONDAY, "g")))
    tx.table("sales.orders").delete("id = 1")
    table.overwrite(rows((9, MONDAY, "z")))
    with pytest.raises(ConflictError):
        tx.__exit__(None, None, None)
    assert other.version == 0
    assert ids(table.to_arrow()) == [9]


def test_a_transaction_holds_one_change_a_table(lake: Lake, table: Table) -> None:
    tx = lake.transaction()
    tx.table("sales.orders").append(rows((5, MONDAY, "e")))
    with pytest.raises(InvalidInputError):
        tx.table("sales.orders").delete("id = 1")
    assert table.version == 1
    with lake.transaction() as tx:
        pass
    with pytest.raises(InvalidInputError, match="ended"):
        tx.table("sales.orders").append(rows((5, MONDAY, "e")))


def add(path: str = "x.parquet", **changes: object) -> AddFile:
    fields = {"path": path, "partition_values": {"day": None}, "size": 1, "modification_time": 1, "data_change": True}
    return AddFile(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def test_ready_made_actions_are_committed_once_per_token(table: Table) -> None:
    transaction = SetTransaction(app_id="a", version=1)
    first = table.commit([add(), transaction], operation="STREAMING UPDATE", token="t1")
    again = table.commit([add(), transaction], operation="STREAMING UPDATE", token="t1")
    assert (first.version, first.replayed) == (2, False)
    assert (again.version, again.replayed) == (2, True)
    assert table.version == 2
    assert table.history()[0].operation == "STREAMING UPDATE"


COMMITS: list[tuple[str, list[object], type[DeltaSqlError]]] = [
    ("outside", [add("../x.parquet")], InvalidInputError),
    ("escaped outside", [add("%2e%2e/x.parquet")], InvalidInputError),
    ("absolute", [add("s3://other/x.parquet")], InvalidInputError),
    ("NUL", [add("a%00b")], InvalidInputError),
    ("negative size", [add(size=-1)], InvalidInputError),
    ("huge size", [add(size=2**63)], InvalidInputError),
    ("statistics", [add(stats="{")], MalformedLogError),
    ("half a character in statistics", [add(stats='{"a":"\ud800"}')], MalformedLogError),
    ("partition values", [add(partition_values={})], InvalidInputError),
    ("twice", [add(), add()], InvalidInputError),
    ("commitInfo", [CommitInfo({})], InvalidInputError),
    ("unknown file", [RemoveFile(path="nope", data_change=True)], InvalidInputError),
    ("surrogate", [SetTransaction(app_id="\ud800", version=1)], InvalidInputError),
]


@pytest.mark.parametrize(("actions", "kind"), [c[1:] for c in COMMITS], ids=[c[0] for c in COMMITS])
def test_ready_made_actions_that_cannot_be_are_refused(
    table: Table, ledger: str, actions: list[object], kind: type[DeltaSqlError]
) -> None:
    before = dump(ledger)
    with pytest.raises(kind) as caught:
        table.commit(actions)  # pyright: ignore[reportArgumentType]
    assert caught.value.hint
    assert dump(ledger) == before


@pytest.mark.parametrize("read_version", [-1, 2, 2**63])
def test_a_read_version_that_never_was_is_refused(table: Table, read_version: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.commit([add()], read_version=read_version)
    assert caught.value.field == "read_version"
