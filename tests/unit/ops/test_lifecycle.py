"""Dropping a table with its files or without: what is removed, and what must never be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from client_samples import SCHEMA, objects
from deltasql.client import Lake, Table
from deltasql.errors import InvalidInputError, StorageError, StorageUnavailableError, TableExistsError
from deltasql.ledger.audit import AuditEntry
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.lifecycle import SqlLifecycle
from deltasql.ops.lifecycle import DropReport, drop_table
from deltasql.storage.locations import open_store
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

ROW = pa.table({"id": [1]})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Lake]:
    """A lake in a local folder."""
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        yield lake


def make(lake: Lake, name: str) -> Table:
    table = lake.create_table(name, ROW.schema)
    table.append(ROW)
    assert lake.mirror(tables=[name]).ok
    return table


def drop(table: Table, *, data: bool = False, force: bool = False) -> DropReport:
    ledger = open_ledger(table._services.ledger)
    try:
        return drop_table(table._services, SqlLifecycle(ledger, "ann"), table._entry, data=data, force=force)
    finally:
        ledger.close()


def acts(lake: Lake) -> list[AuditEntry]:
    return [act for act in lake._services.audit.entries() if act.action != "commit"]


def test_without_data_every_file_stays_and_the_table_can_be_adopted_again(lake: Lake, table: Table) -> None:
    assert lake.mirror().ok
    before, rows = objects(table), table.to_arrow()
    report = drop(table)
    assert report == DropReport(table="sales.orders", location=table.location, version=1, unpublished=0)
    assert (lake.tables(), objects(table)) == ([], before)
    with pytest.raises(TableExistsError, match="holds a Delta table already"):
        lake.create_table("sales.orders", SCHEMA)
    again = lake.adopt(table.location, "sales.orders")
    assert again.to_arrow().sort_by("id").equals(rows.sort_by("id"))


def test_with_data_nothing_of_it_stays_and_its_place_is_free(folder: Lake, tmp_path: Path) -> None:
    table, other = make(folder, "sales.orders"), make(folder, "sales.other")
    place = tmp_path / "warehouse/sales"
    # What no listing shows, and folders without files.
    (place / "orders/empty/er").mkdir(parents=True)
    sizes = [file.stat().st_size for file in (place / "orders").rglob("*") if file.is_file()]
    report = drop(table, data=True)
    assert (report.files, report.bytes) == (len(sizes), sum(sizes))
    assert [path.name for path in place.iterdir()] == ["other"]
    assert other.to_arrow().equals(ROW)
    again = folder.create_table("sales.orders", ROW.schema)
    assert (again.version, again.location) == (0, table.location)


def test_the_audit_says_who_and_what(folder: Lake) -> None:
    table = make(folder, "t")
    drop(table, data=True)
    (act,) = acts(folder)
    assert (act.action, act.table, act.version, act.actor) == ("drop", "t", 1, "ann")
    assert act.detail == {"location": table.location, "data": True, "unpublished": 0}


def test_what_a_link_leads_to_is_not_the_tables(folder: Lake, tmp_path: Path) -> None:
    table = make(folder, "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.parquet").write_text("x")
    (tmp_path / "warehouse/t/link").symlink_to(outside)
    drop(table, data=True)
    assert (outside / "kept.parquet").read_text() == "x"


def test_a_folder_that_holds_another_table_is_refused(folder: Lake, tmp_path: Path) -> None:
    outer, inner = make(folder, "sales"), make(folder, "sales.orders")
    before = sorted((tmp_path / "warehouse").rglob("*"))
    with pytest.raises(InvalidInputError, match=r"holds more than table 'sales': table sales\.orders"):
        drop(outer, data=True)
    assert sorted((tmp_path / "warehouse").rglob("*")) == before
    assert [table.name for table in folder.tables()] == ["sales", "sales.orders"]
    # A table that the ledger does not know is another one as well.
    drop(inner)
    with pytest.raises(InvalidInputError, match="a Delta table in orders"):
        drop(outer, data=True)
    assert acts(folder)[0].table == "sales.orders"
    drop(outer)


def test_a_folder_that_holds_the_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with deltasql.connect(f"sqlite:///{tmp_path}/t/lake.db", root=str(tmp_path)) as lake:
        table = make(lake, "t")
        with pytest.raises(InvalidInputError, match=rf"the ledger {tmp_path}/t/lake\.db"):
            drop(table, data=True)
        assert table.to_arrow().equals(ROW)
        drop(table)


def test_versions_that_are_not_in_the_log_are_kept_unless_by_force(table: Table) -> None:
    before = objects(table)
    for data in (False, True):
        with pytest.raises(InvalidInputError, match="2 versions"):
            drop(table, data=data)
    assert (objects(table), table.version) == (before, 1)
    assert drop(table, data=True, force=True).unpublished == 2
    assert objects(table) == set()


def test_a_store_that_fails_half_way_is_told_of(lake: Lake) -> None:
    # Its files come before the log in a listing.
    table = lake.create_table("t", pa.schema([("id", pa.int64()), ("A", pa.int64())]), partition_by=["A"])
    table.append(pa.table({"id": [1, 2], "A": [1, 2]}))
    assert lake.mirror().ok
    data = {key for key in objects(table) if key.startswith("A=")}
    store = open_store(table.location)
    assert isinstance(store, MemoryStore)
    store.fail_next("delete", StorageUnavailableError("503"), skip=1)
    with pytest.raises(StorageError, match=r"is out of the ledger, but .* could not be emptied: 503") as failed:
        drop(table, data=True)
    assert type(failed.value) is StorageUnavailableError
    assert lake.tables() == []
    # The log goes first.
    assert len(data) == 2
    assert data < objects(table)
