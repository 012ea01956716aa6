"""The client's verbs: what they commit, what they refuse, and that a refusal changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake, Table
from deltasql.errors import (
    ConfigError,
    ConflictError,
    DeltaSqlError,
    InvalidInputError,
    MalformedLogError,
    PredicateError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from deltasql.protocol.actions import AddFile, CommitInfo, RemoveFile, SetTransaction
from deltasql.storage.locations import open_store

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32()), ("name", pa.string())])
MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)


def rows(*values: tuple[int, date | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], schema=SCHEMA)


def ids(data: pa.Table) -> list[int]:
    return sorted(data.column("id").to_pylist())


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def lake(ledger: str) -> Iterator[Lake]:
    with deltasql.connect(ledger, root=f"memory://{uuid4()}") as opened:
        yield opened


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("sales.orders", SCHEMA, partition_by=["day"])
    made.append(rows((1, MONDAY, "a"), (2, MONDAY, "b"), (3, TUESDAY, None), (4, None, "d")))
    return made


def objects(table: Table) -> set[str]:
    return {meta.key for meta in open_store(table.location).list()}


def dump(ledger: str) -> list[str]:
    with sqlite3.connect(ledger.removeprefix("sqlite:///")) as connection:
        return list(connection.iterdump())


# -- creating and finding -------------------------------------------------------------------------------------------


def test_a_new_table_has_its_folder_below_the_root_and_in_commit_timestamps(lake: Lake) -> None:
    table = lake.create_table("a.b c.d", SCHEMA, properties={"owner": "me"}, description="words")
    assert table.location == f"{lake.root}/a/b%20c/d"
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.schema) == (0, SCHEMA)
    assert snapshot.metadata.configuration == {"delta.enableInCommitTimestamps": "true", "owner": "me"}
    assert snapshot.metadata.description == "words"
    assert snapshot.protocol.writer_features == ("inCommitTimestamp", "invariants")
    (entry,) = table.history()
    assert entry.commit_info["inCommitTimestamp"] == entry.timestamp == snapshot.timestamp
    assert [found.name for found in lake.tables()] == ["a.b c.d"]


def test_a_delta_schema_string_does_as_well(lake: Lake) -> None:
    text = '{"type":"struct","fields":[{"name":"n","type":"timestamp_ntz","nullable":true,"metadata":{}}]}'
    table = lake.create_table("t", text)
    assert table.snapshot().schema == pa.schema([("n", pa.timestamp("us"))])
    assert table.snapshot().protocol.reader_features == ("timestampNtz",)


def test_in_commit_timestamps_can_be_left_out(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, properties={"delta.enableInCommitTimestamps": "false"})
    assert table.snapshot().metadata.configuration == {}
    assert "inCommitTimestamp" not in table.history()[0].commit_info


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", "a/b", "a\\b", "a\0b", " a", "a. b", "\ud800", "x" * 600, "..", "a.\n", 7]
)
def test_names_that_cannot_be_are_refused(lake: Lake, ledger: str, name: str) -> None:
    before = dump(ledger)
    with pytest.raises(InvalidInputError) as caught:
        lake.create_table(name, SCHEMA)
    assert caught.value.field == "name"
    assert dump(ledger) == before


Refused = Callable[[Lake], object]

CREATIONS: list[tuple[str, Refused, type[DeltaSqlError], str]] = [
    ("taken", lambda lake: lake.create_table("sales.orders", SCHEMA), TableExistsError, "name"),
    ("no schema", lambda lake: lake.create_table("t", 7), InvalidInputError, "schema"),  # pyright: ignore
    ("no JSON", lambda lake: lake.create_table("t", "{"), SchemaError, "schema"),
    ("half a character", lambda lake: lake.create_table("t", '{"type":"\ud800"}'), SchemaError, "schema"),
    ("no columns", lambda lake: lake.create_table("t", pa.schema([])), SchemaError, "schema"),
    ("unsigned", lambda lake: lake.create_table("t", pa.schema([("u", pa.uint8())])), SchemaError, "u"),
    ("partition", lambda lake: lake.create_table("t", SCHEMA, partition_by=["x"]), SchemaError, "partition_by"),
    ("text", lambda lake: lake.create_table("t", SCHEMA, partition_by="day"), InvalidInputError, "partition_by"),
    ("twice", lambda lake: lake.create_table("t", SCHEMA, partition_by=["day", "DAY"]), SchemaError, "partition_by"),
    ("all", lambda lake: lake.create_table("t", SCHEMA, partition_by=SCHEMA.names), SchemaError, "partition_by"),
    (
        "property",
        lambda lake: lake.create_table("t", SCHEMA, properties={"delta.appendOnly": "x"}),
        InvalidInputError,
        "properties.delta.appendOnly",
    ),
]


@pytest.mark.parametrize(("call", "kind", "field"), [c[1:] for c in CREATIONS], ids=[c[0] for c in CREATIONS])
def test_creations_that_are_refused_change_nothing(
    lake: Lake, ledger: str, table: Table, call: Refused, kind: type[DeltaSqlError], field: str
) -> None:
    before = dump(ledger)
    with pytest.raises(kind) as caught:
        call(lake)
    assert caught.value.field == field
    assert caught.value.hint
    assert dump(ledger) == before


def test_a_folder_that_holds_a_delta_table_is_not_written_over(lake: Lake) -> None:
    open_store(f"{lake.root}/t").put(f"_delta_log/{0:020d}.json", b"{}\n")
    with pytest.raises(TableExistsError, match="adopt"):
        lake.create_table("t", SCHEMA)


def test_an_unknown_table_is_named(lake: Lake) -> None:
    with pytest.raises(TableNotFoundError, match="'nope'") as caught:
        lake.table("nope")
    assert "table list" in (caught.value.hint or "")


# -- append, overwrite, delete --------------------------------------------------------------------------------------


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


# -- time travel ----------------------------------------------------------------------------------------------------


def test_time_travel_by_version_and_by_instant(table: Table) -> None:
    second = table.append(rows((5, MONDAY, "e")))
    assert ids(table.to_arrow(version=1)) == [1, 2, 3, 4]
    moment = datetime.fromtimestamp(second.timestamp / 1000, UTC)
    assert table.snapshot(timestamp=moment).version == 2
    assert table.snapshot(timestamp=moment.isoformat()).version == 2
    assert table.snapshot(timestamp=moment - timedelta(milliseconds=1)).version == 1
    assert table.snapshot(timestamp=moment + timedelta(days=1)).version == 2


@pytest.mark.parametrize("version", [-1, 3, 2**63 - 1])
def test_versions_outside_the_history_are_refused_with_its_range(table: Table, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="from version 0") as caught:
        table.snapshot(version=version)
    assert caught.value.hint


def test_instants_before_the_first_version_are_refused(table: Table) -> None:
    with pytest.raises(VersionNotFoundError):
        table.snapshot(timestamp="2000-01-01T00:00:00Z")


@pytest.mark.parametrize("timestamp", ["yesterday", "2026-01-01T00:00:00", datetime(2026, 1, 1)])  # noqa: DTZ001
def test_what_is_no_instant_is_refused(table: Table, timestamp: str | datetime) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.snapshot(timestamp=timestamp)
    assert caught.value.field == "timestamp"


def test_version_and_instant_together_are_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError):
        table.snapshot(version=1, timestamp="2026-01-01T00:00:00Z")


# -- conflicts and transactions -------------------------------------------------------------------------------------


def test_a_delete_that_lost_a_race_is_a_typed_conflict_and_an_append_is_not(table: Table) -> None:
    from deltasql.ops.write import draft_append, draft_delete

    services, entry, snapshot = table._services, table._entry, table.snapshot()  # noqa: SLF001
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
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        tx.table("sales.orders").append(rows((5, MONDAY, "e")))
        raise ZeroDivisionError
    assert dump(ledger) == before


def test_a_transaction_that_conflicts_on_one_table_commits_to_none(lake: Lake, table: Table) -> None:
    other = lake.create_table("other", SCHEMA)
    with pytest.raises(ConflictError), lake.transaction() as tx:
        tx.table("other").append(rows((7, MONDAY, "g")))
        tx.table("sales.orders").delete("id = 1")
        table.overwrite(rows((9, MONDAY, "z")))
    assert other.version == 0
    assert ids(table.to_arrow()) == [9]


def test_a_transaction_holds_one_change_a_table(lake: Lake, table: Table) -> None:
    with pytest.raises(InvalidInputError), lake.transaction() as tx:
        tx.table("sales.orders").append(rows((5, MONDAY, "e")))
        tx.table("sales.orders").delete("id = 1")
    assert table.version == 1
    with lake.transaction() as tx:
        pass
    with pytest.raises(InvalidInputError, match="ended"):
        tx.table("sales.orders").append(rows((5, MONDAY, "e")))


# -- commits of other engines ---------------------------------------------------------------------------------------


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


# -- connecting -----------------------------------------------------------------------------------------------------


def test_the_root_is_kept_and_another_one_refused(ledger: str, tmp_path: Path) -> None:
    with deltasql.connect(ledger) as first, pytest.raises(ConfigError) as caught:
        first.create_table("t", SCHEMA)
    assert caught.value.field == "root"
    root = (tmp_path / "warehouse").as_uri()
    with deltasql.connect(ledger, root=f"{root}/") as second:
        assert second.root == root
    with deltasql.connect(ledger) as third:
        assert third.root == root
    with pytest.raises(ConfigError, match="root"):
        deltasql.connect(ledger, root=str(tmp_path / "other"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "lake.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/x",
        "mysql://x/y",
        "sqlite:///a\0b",
    ],
)
def test_what_is_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        deltasql.connect(url)
    assert caught.value.field == "ledger"
    assert "sqlite:///" in (caught.value.hint or "")


def test_a_bad_root_leaves_no_ledger_behind(ledger: str) -> None:
    with pytest.raises(ConfigError):
        deltasql.connect(ledger, root="gopher://x")
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


def test_an_unwritable_root_is_told_at_once_and_nothing_is_created(ledger: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with deltasql.connect(ledger, root=str(tmp_path / "file" / "warehouse")) as lake:
        before = dump(ledger)
        with pytest.raises(DeltaSqlError) as caught:
            lake.create_table("t", SCHEMA)
        assert caught.value.hint
        assert dump(ledger) == before
