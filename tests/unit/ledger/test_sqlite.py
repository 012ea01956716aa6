"""What a SQLite ledger answers when something is wrong with the file, the disk or another process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
)
from deltasql.ledger.dialects import sqlite
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import METADATA, PROTOCOL, add, creation, draft, found, location

pytestmark = pytest.mark.unit


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


# -- connections ----------------------------------------------------------------------------------------------------


def test_an_acknowledged_commit_survives_the_loss_of_power(ledger: Ledger) -> None:
    with ledger.read() as session:
        assert session.row("PRAGMA journal_mode") == ("wal",)
        assert session.row("PRAGMA synchronous") == (2,)


FIRST = """
import os, sys, traceback
from deltasql.ledger.dialects import dialect_for
entered = 0
for number in range(40):
    dialect = dialect_for(f"{sys.argv[1]}/{number}.db")
    ready, go = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(go)
                os.read(ready, 1)
                dialect.connect().execute("CREATE TABLE IF NOT EXISTS t (x)")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    os.close(ready)
    os.close(go)
    entered += sum(os.waitpid(child, 0)[1] == 0 for child in children)
print(entered)
"""


def test_processes_that_meet_at_a_new_file_all_get_in(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST, f"sqlite:///{tmp_path}"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("320\n", 0), done.stderr


def test_a_transaction_that_does_not_begin_or_end_closes_its_connection(ledger: Ledger) -> None:
    with pytest.raises(LedgerError), ledger.write() as session:
        session.change("ROLLBACK")
    with ledger.read() as session:
        pass
    ledger.dialect.begin_write = "BEGIN NONSENSE"
    with pytest.raises(LedgerError), ledger.write():
        pass
    assert ledger._idle == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        session._connection.execute("SELECT 1")


def test_why_the_database_rolled_back_is_not_lost(ledger: Ledger) -> None:
    """After some errors SQLite has rolled back by itself, and says so when asked to do it again."""

    def write_twice() -> None:
        with ledger.write() as session:
            connections.append(session._connection)
            for _ in range(2):
                session.change("INSERT OR ROLLBACK INTO dl_lake VALUES ('a', NULL, 1)")

    connections: list[sqlite3.Connection] = []
    with pytest.raises(LedgerError, match="CONSTRAINT"):
        write_twice()
    with ledger.read() as session:
        assert session.rows("SELECT * FROM dl_lake") == []
        # Nobody knows what state the first connection is in, so there is a new one.
        assert session._connection is not connections[0]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].execute("SELECT 1")


# -- errors, each of them provoked ----------------------------------------------------------------------------------


def answer(error: DeltaSqlError) -> str:
    """The code that SQLite gave, as it stands in the message."""
    assert error.hint
    return error.message.partition(" answered ")[2].partition(":")[0]


def test_a_lock_that_is_held_is_worth_another_try(path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT_SECONDS", 0)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusyError) as caught:
            SqlTxnLogWriter(ledger).commit([creation("t")])
        assert answer(caught.value) == "SQLITE_BUSY"
        assert caught.value.retry
        holder.execute("ROLLBACK")
    assert SqlTxnLogWriter(ledger).commit([creation("t")])


def test_an_extended_code_counts_as_its_primary_one(ledger: Ledger) -> None:
    def write_after_another() -> None:
        with ledger.read() as session:
            session.rows("SELECT * FROM dl_lake")
            with ledger.write() as other:
                other.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")
            # It has seen a state that is not the newest any more, so it cannot write.
            session.change("INSERT INTO dl_lake VALUES ('b', NULL, 1)")

    with pytest.raises(LedgerBusyError) as caught:
        write_after_another()
    assert answer(caught.value) == "SQLITE_BUSY_SNAPSHOT"


def test_a_folder_that_cannot_be_one_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "lake.db", tmp_path / "absent" / "lake.db", tmp_path):
        with pytest.raises(ConfigError) as caught:
            open_ledger(f"sqlite:///{place}")
        assert answer(caught.value) == "SQLITE_CANTOPEN"
        assert caught.value.field == "ledger"
        assert str(place.parent) in (caught.value.hint or "")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_database_that_may_not_be_written_is_a_wrong_setting(ledger: Ledger) -> None:
    with ledger.read() as session:
        session.change("PRAGMA query_only = ON")
    with pytest.raises(ConfigError) as caught:
        SqlTxnLogWriter(ledger).commit([creation("t")])
    assert answer(caught.value) == "SQLITE_READONLY"


def test_a_file_that_is_no_database_is_not_touched(path: Path) -> None:
    path.write_text("id,name\n" * 1_000)
    with pytest.raises(ConfigError) as caught:
        open_ledger(f"sqlite:///{path}")
    assert answer(caught.value) == "SQLITE_NOTADB"
    assert caught.value.field == "ledger"
    assert path.read_text() == "id,name\n" * 1_000


def test_a_damaged_file_is_corrupt(path: Path, ledger: Ledger) -> None:
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    for n in range(20):
        writer.commit([draft("t", *(add(f"{n}-{m}") for m in range(20)))])
    ledger.close()
    # The first page holds the schema and stays; all others are overwritten.
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(LedgerCorruptError) as caught:
        SqlTxnLogReader(ledger).tables()
    assert answer(caught.value) == "SQLITE_CORRUPT"
    assert not caught.value.retry


def limit_pages(ledger: Ledger, more: int) -> None:
    """Let the database grow by a few pages only, as on a disk that is nearly full."""
    with ledger.read() as session:
        (pages,) = session.rows("PRAGMA page_count")[0]
        session.row(f"PRAGMA max_page_count = {pages + more}")


BIG = [add("x" * 2_000 + str(n)) for n in range(50)]


def test_a_full_disk_is_told_and_leaves_nothing(ledger: Ledger) -> None:
    writer, reader = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger)
    writer.commit([creation("t")])
    table = reader.table("t")
    before = list(reader.commits(table, 0, 9))
    limit_pages(ledger, 3)
    with pytest.raises(LedgerFullError) as caught:
        writer.commit([draft("t", *BIG), creation("u")])
    assert answer(caught.value) == "SQLITE_FULL"
    assert caught.value.error_class == "capacity"
    assert list(reader.commits(table, 0, 9)) == before
    assert [entry.name for entry in reader.tables()] == ["t"]
    # With space again, the same commit goes through.
    limit_pages(ledger, 10_000)
    assert writer.commit([draft("t", *BIG), creation("u")])


def test_an_adoption_that_fails_half_way_leaves_nothing(ledger: Ledger) -> None:
    writer, reader = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger)
    history = [found(0, PROTOCOL, METADATA, timestamp=1), found(1, *BIG, timestamp=2)]
    limit_pages(ledger, 3)
    with pytest.raises(LedgerFullError):
        writer.adopt("old", location("old"), history)
    assert reader.tables() == []
    limit_pages(ledger, 10_000)
    assert reader.head(writer.adopt("old", location("old"), history)).version == 1


def test_other_errors_of_the_database_are_errors_of_the_ledger(ledger: Ledger) -> None:
    for statement, code in [
        ("INSERT INTO dl_lake VALUES ('a', NULL, NULL)", "SQLITE_CONSTRAINT_NOTNULL"),
        ("SELECT * FROM nowhere", "SQLITE_ERROR"),
        ("SELECT ?", "ProgrammingError"),
    ]:
        with pytest.raises(LedgerError) as caught, ledger.write() as session:
            session.change(statement)
        assert type(caught.value) is LedgerError
        assert answer(caught.value) == code
        assert isinstance(caught.value.__cause__, sqlite3.Error)
