"""A table gets another name, or leaves the ledger: what goes, what stays, and who hears of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from deltasql.errors import DeltaSqlError, InvalidInputError, TableExistsError, TableNotFoundError
from deltasql.ledger.audit import SqlAudit
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.lifecycle import Lifecycle, SqlLifecycle, table_names
from deltasql.ledger.memory import MemoryTxnLogWriter
from deltasql.ledger.memory.lifecycle import MemoryLifecycle
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_backends import LedgerUnderTest
from ledger_samples import add, creation, domain, draft, location, remove, txn

pytestmark = pytest.mark.contract


def lifecycle_of(ledger: LedgerUnderTest) -> Lifecycle:
    writer = ledger.writer
    if isinstance(writer, MemoryTxnLogWriter):
        return MemoryLifecycle(writer._contents)
    return SqlLifecycle(database_of(ledger), "ann")


def database_of(ledger: LedgerUnderTest) -> Ledger:
    assert isinstance(ledger.writer, SqlTxnLogWriter)
    return ledger.writer._ledger


@pytest.fixture
def lifecycle(ledger: LedgerUnderTest) -> Lifecycle:
    return lifecycle_of(ledger)


@pytest.fixture
def table(ledger: LedgerUnderTest) -> TableEntry:
    """A table with a row in every table of the ledger, all versions published."""
    table = ledger.create("a")
    ledger.append(table, add("1"), txn("app"), domain("d"), token="first")
    ledger.append(table, remove("1"), add("2"))
    publish(ledger, table)
    return table


def publish(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = ledger.outbox.acquire(table, 10)
    assert lease is not None
    ledger.outbox.mark_published(table, lease, ledger.outbox.unpublished(table, 100))
    ledger.outbox.release(lease)


def rows_of(database: Ledger, table_id: int) -> dict[str, int]:
    with database.read() as session:
        counts = {
            name: session.row(f"SELECT COUNT(*) FROM {name} WHERE table_id = ?", (table_id,))
            for name in table_names(database)
        }
    return {name: row[0] for name, row in counts.items() if row is not None}


class TestRename:
    def test_the_name_changes_and_nothing_else(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        history = list(ledger.reader.commits(table, 0, 100))
        renamed = lifecycle.rename(table, "b.c")
        assert renamed == TableEntry(table_id=table.table_id, name="b.c", location=table.location)
        assert ledger.reader.tables() == [renamed]
        assert ledger.reader.table("b.c") == renamed
        assert list(ledger.reader.commits(renamed, 0, 100)) == history
        assert ledger.append(renamed, add("3")) == 3
        with pytest.raises(TableNotFoundError, match="'a'"):
            ledger.reader.table("a")

    def test_who_holds_the_old_name_can_go_on_reading(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        lifecycle.rename(table, "b")
        assert ledger.reader.head(table).version == 2
        assert ledger.outbox.mirror_head(table).published_version == 2
        with pytest.raises(TableNotFoundError):
            ledger.writer.commit([draft("a", add("3"))])

    def test_a_table_may_get_its_own_name_and_an_old_one_is_free(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        assert lifecycle.rename(table, "a") == table
        renamed = lifecycle.rename(table, "b")
        ledger.commit(creation("a", create_at="memory://lake/elsewhere"))
        assert [entry.name for entry in ledger.reader.tables()] == ["a", "b"]
        assert ledger.reader.table("b") == renamed
        with pytest.raises(TableExistsError, match="'b'"):
            ledger.writer.commit([creation("c", create_at=table.location)])

    def test_a_commit_made_for_one_table_is_not_given_to_another_of_its_name(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        lifecycle.rename(table, "b")
        ledger.commit(creation("a", create_at="memory://lake/elsewhere"))
        before = ledger.facts()
        with pytest.raises(TableNotFoundError):
            ledger.writer.commit([draft("a", add("3"), table_id=table.table_id, read_version=0)])
        assert ledger.facts() == before
        assert ledger.append(ledger.reader.table("a"), add("3"), table_id=ledger.reader.table("a").table_id) == 1

    @pytest.mark.parametrize(
        ("name", "error"), [("taken", TableExistsError), ("", InvalidInputError), ("a..b", InvalidInputError)]
    )
    def test_a_name_that_cannot_be_had_changes_nothing(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry, name: str, error: type[DeltaSqlError]
    ) -> None:
        ledger.create("taken")
        before = ledger.facts()
        with pytest.raises(error):
            lifecycle.rename(table, name)
        assert ledger.facts() == before

    def test_of_two_tables_one_gets_the_name(self, ledger: LedgerUnderTest, lifecycle: Lifecycle) -> None:
        tables = [ledger.create(name) for name in ("a", "b")]
        start = Barrier(2)

        def rename(table: TableEntry) -> bool:
            start.wait()
            try:
                lifecycle.rename(table, "c")
            except TableExistsError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(rename, tables)) == [False, True]
        assert sum(entry.name == "c" for entry in ledger.reader.tables()) == 1


class TestDrop:
    def test_everything_of_the_table_goes_and_nothing_of_others(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        other = ledger.create("other")
        ledger.append(other, add("1"), txn("app"), domain("d"))
        before = list(ledger.reader.commits(other, 0, 100))
        dropped = lifecycle.drop(table)
        assert (dropped.table, dropped.version, dropped.unpublished) == (table, 2, 0)
        assert ledger.reader.tables() == [other]
        assert list(ledger.reader.commits(other, 0, 100)) == before
        assert ledger.reader.heads() == {"other": 1}
        assert ledger.outbox.tables_owing() == [other]
        with pytest.raises(TableNotFoundError):
            ledger.reader.head(table)
        with pytest.raises(TableNotFoundError):
            ledger.outbox.mirror_head(table)
        with pytest.raises(TableNotFoundError):
            ledger.writer.commit([draft("a", add("3"))])

    def test_no_row_of_it_is_left_in_the_database(self, shared_ledger: LedgerUnderTest) -> None:
        table = shared_ledger.create("a")
        shared_ledger.append(table, add("1"), txn("app"), domain("d"))
        publish(shared_ledger, table)
        database = database_of(shared_ledger)
        before = rows_of(database, table.table_id)
        assert {"dl_tables", "dl_table_heads", "dl_add_files", "dl_leases", "dl_mirror_status"} <= set(before)
        assert sum(before.values()) > 10
        lifecycle_of(shared_ledger).drop(table)
        assert set(rows_of(database, table.table_id).values()) == {0}

    def test_versions_that_stand_nowhere_else_are_kept_unless_by_force(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        ledger.append(table, add("3"))
        before = ledger.facts()
        with pytest.raises(InvalidInputError, match="1 versions of table 'a'") as refused:
            lifecycle.drop(table)
        assert (refused.value.field, "mirror once a" in (refused.value.hint or "")) == ("force", True)
        assert ledger.facts() == before
        assert lifecycle.drop(table, force=True).unpublished == 1
        assert ledger.reader.tables() == []

    def test_a_dropped_table_cannot_be_dropped_or_renamed_again(self, lifecycle: Lifecycle, table: TableEntry) -> None:
        lifecycle.drop(table)
        with pytest.raises(TableNotFoundError):
            lifecycle.drop(table)
        with pytest.raises(TableNotFoundError):
            lifecycle.rename(table, "b")

    def test_name_and_place_may_be_used_again_and_the_number_never(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        lifecycle.drop(table)
        again = ledger.create("a")
        assert again.location == location("a") == table.location
        assert again.table_id > table.table_id
        assert [commit.version for commit in ledger.reader.commits(again, 0, 100)] == [0]
        assert ledger.append(again, add("1"), token="first") == 1
        # What still means the old one finds nothing, and not the new one.
        with pytest.raises(TableNotFoundError):
            ledger.reader.head(table)
        with pytest.raises(TableNotFoundError):
            lifecycle.drop(table, force=True)
        assert ledger.reader.head(again).version == 1

    def test_a_publisher_at_work_is_told(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        ledger.append(table, add("3"))
        lease = ledger.outbox.acquire(table, 10)
        assert lease is not None
        lifecycle.drop(table, force=True)
        again = ledger.create("a")
        before = ledger.facts()
        with pytest.raises(TableNotFoundError):
            ledger.outbox.mark_published(table, lease, [3])
        with pytest.raises(TableNotFoundError):
            ledger.outbox.unpublished(table, 10)
        ledger.outbox.release(lease)
        assert ledger.facts() == before
        assert ledger.outbox.unpublished(again, 10) == [0]

    def test_a_commit_at_the_same_time_stands_before_it_or_fails(
        self, ledger: LedgerUnderTest, lifecycle: Lifecycle, table: TableEntry
    ) -> None:
        start = Barrier(2)

        def commit() -> int | None:
            start.wait()
            try:
                return ledger.append(table, add("3"))
            except TableNotFoundError:
                return None

        def drop() -> int:
            start.wait()
            return lifecycle.drop(table, force=True).version

        with ThreadPoolExecutor(2) as pool:
            committed, dropped = pool.submit(commit), pool.submit(drop)
            assert (committed.result(), dropped.result()) in [(3, 3), (None, 2)]
        assert ledger.reader.tables() == []


class TestAudit:
    def test_both_are_in_the_audit(self, shared_ledger: LedgerUnderTest) -> None:
        table = shared_ledger.create("a")
        shared_ledger.append(table, add("1"))
        lifecycle = lifecycle_of(shared_ledger)
        lifecycle.drop(lifecycle.rename(table, "b"), force=True, data=True)
        acts = SqlAudit(database_of(shared_ledger), "").entries("b")
        assert [(act.action, act.version, act.actor) for act in acts] == [("drop", 1, "ann"), ("rename", 1, "ann")]
        assert acts[0].detail == {"location": table.location, "data": True, "unpublished": 2}
        assert acts[1].detail == {"before": "a"}

    def test_what_is_refused_is_not(self, shared_ledger: LedgerUnderTest) -> None:
        table, taken = shared_ledger.create("a"), shared_ledger.create("b")
        lifecycle = lifecycle_of(shared_ledger)
        with pytest.raises(InvalidInputError):
            lifecycle.drop(table)
        with pytest.raises(TableExistsError):
            lifecycle.rename(table, taken.name)
        acts = SqlAudit(database_of(shared_ledger), "").entries()
        assert {act.action for act in acts} == {"commit"}


def test_a_ledger_opened_again_has_the_new_table_and_not_the_old_one(shared_ledger: LedgerUnderTest) -> None:
    """A database that replays its own log must come to the same: name and number, gone and given again."""
    lifecycle = lifecycle_of(shared_ledger)
    for _ in range(3):
        table = shared_ledger.create("a")
        shared_ledger.append(table, add("1"))
        lifecycle.drop(lifecycle.rename(table, "b"), force=True)
    last = shared_ledger.create("a")
    shared_ledger.append(last, add("1"))
    assert shared_ledger.url is not None
    database_of(shared_ledger).close()
    again = open_ledger(shared_ledger.url, create=False)
    try:
        assert sum(rows_of(again, last.table_id).values()) > 0
        with again.read() as session:
            assert session.rows("SELECT table_id, name FROM dl_tables") == [(last.table_id, "a")]
    finally:
        again.close()
