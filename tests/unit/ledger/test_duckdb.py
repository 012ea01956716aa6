"""What a DuckDB ledger answers when another process holds the file, and when file or disk are not as they should be."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerRaceError,
)
from deltasql.ledger.dialects import duckdb as dialect
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import add, creation, draft, paths

pytestmark = pytest.mark.unit


@pytest.fixture
def kind() -> str:
    return "duckdb"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def answer(error: DeltaSqlError) -> str:
    """The class that DuckDB gave, as it stands in the message."""
    assert error.hint
    return error.message.partition(" answered ")[2].partition(":")[0]


# -- another process --------------------------------------------------------------------------------------------------

HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process has the file open, until its standard input ends."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.communicate()


def test_who_holds_the_file_is_named(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "LOCK_TIMEOUT_SECONDS", 0.1)
    with held(path) as holder:
        for use in (ledger.read, ledger.write, ledger.look):
            with pytest.raises(LedgerBusyError, match=f"process {holder.pid} holds") as caught, use():
                pass
            assert str(path) in caught.value.message
            assert caught.value.field == "ledger"
            assert caught.value.retry
            assert not isinstance(caught.value, LedgerRaceError)
    assert SqlTxnLogWriter(ledger).commit([creation("t")])


def test_who_waits_gets_the_file_when_it_is_let_go(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = dialect.time.sleep
    with held(path) as holder:

        def let_go(seconds: float) -> None:
            # So it was found held, and will be tried again.
            holder.communicate()
            sleep(seconds)

        monkeypatch.setattr(dialect.time, "sleep", let_go)
        assert SqlTxnLogWriter(ledger).commit([creation("t")])
        assert holder.returncode == 0


def test_between_two_transactions_the_file_is_free(ledger: Ledger, path: Path) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t")])
    with held(path):
        pass
    SqlTxnLogWriter(ledger).commit([draft("t", add("a"))])
    with held(path):
        pass
    reader = SqlTxnLogReader(ledger)
    assert paths(reader.files(reader.table("t"), 1)) == ["a"]


# -- threads ----------------------------------------------------------------------------------------------------------


def test_writers_of_one_process_wait_for_each_other(url: str) -> None:
    ledgers = [open_ledger(url), open_ledger(url)]
    inside, most = [0], [0]
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        for step in range(5):
            with ledgers[number % 2].write() as session:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                session.change("INSERT INTO dl_lake VALUES (?, NULL, 1)", (f"{number}-{step}",))
                inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert most == [1]
    with ledgers[0].read() as session:
        assert session.row("SELECT COUNT(*) FROM dl_lake") == (20,)


def test_a_thread_that_waits_too_long_is_told(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "LOCK_TIMEOUT_SECONDS", 0.1)

    def wait() -> None:
        with pytest.raises(LedgerBusyError, match="another thread"), ledger.write():
            pass

    with ledger.write(), ThreadPoolExecutor(1) as pool:
        pool.submit(wait).result()
    with ledger.write() as session:
        assert session.row("SELECT 1") == (1,)


def test_a_reader_does_not_wait_for_a_writer(ledger: Ledger) -> None:
    with ledger.write() as session:
        session.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")
        with ledger.read() as reader, ThreadPoolExecutor(1) as pool:
            assert pool.submit(reader.rows, "SELECT * FROM dl_lake").result() == []


def test_two_that_change_one_row_are_a_race(ledger: Ledger) -> None:
    """Not met where writers wait for each other, so here one goes past the queue."""
    with ledger.write() as session:
        session.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")

    def change_beside_another(statement: str) -> None:
        with ledger.read() as other:
            other.change(statement)
            with ledger.write() as session:
                session.change(statement)
            other.commit()

    for statement in ("UPDATE dl_lake SET root = 'x'", "INSERT INTO dl_lake VALUES ('b', NULL, 1)"):
        with pytest.raises(LedgerRaceError) as caught:
            change_beside_another(statement)
        assert answer(caught.value) == "TransactionException"


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_one_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "lake.db", tmp_path / "absent" / "lake.db", tmp_path):
        with pytest.raises(ConfigError) as caught:
            open_ledger(f"duckdb:///{place}")
        assert answer(caught.value) == "IOException"
        assert caught.value.field == "ledger"
        assert str(place.parent) in (caught.value.hint or "")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("content", [b"", b"id", b"id,name\n" * 1_000], ids=["empty", "short", "long"])
def test_a_file_that_is_no_database_is_not_touched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="not a valid DuckDB") as caught:
        open_ledger(f"duckdb:///{path}")
    assert caught.value.field == "ledger"
    assert path.read_bytes() == content


def test_a_file_of_sqlite_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE t (x)")
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        open_ledger(f"duckdb:///{path}")
    assert "DuckDB file" in (caught.value.hint or "")
    # Nothing was asked of the network.
    assert "download" not in caught.value.message
    assert path.read_bytes() == before


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    writer.commit([draft("t", *(add(f"{n}" * 50) for n in range(2_000)))])
    return ledger


@pytest.mark.parametrize("place", ["header", "blocks"])
def test_a_damaged_file_is_corrupt(filled: Ledger, path: Path, place: str) -> None:
    # Three headers of 4096 bytes, then the data.
    start, length = (4_096, 8_192) if place == "header" else (12_288, path.stat().st_size - 12_288)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)
    with pytest.raises(LedgerCorruptError, match="checksum") as caught:
        SqlTxnLogReader(filled).tables()
    assert answer(caught.value) == "IOException"
    assert not caught.value.retry


def test_a_file_that_was_cut_off_is_corrupt(filled: Ledger, path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(20_000)
    with pytest.raises(LedgerCorruptError, match="enough bytes"):
        SqlTxnLogReader(filled).tables()


CRASH = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1])
for number in range(200):
    connection.execute("INSERT INTO dl_lake VALUES (?, ?, 1)", (str(number), "x" * 300))
os._exit(0)
"""


def test_what_a_crash_left_is_read_unless_it_is_damaged(ledger: Ledger, path: Path) -> None:
    subprocess.run([sys.executable, "-c", CRASH, str(path)], check=True)
    rest = path.with_name("ledger.db.wal")
    # A crash leaves what was committed beside the file.
    saved = path.read_bytes(), rest.read_bytes()
    with ledger.read() as session:
        assert session.row("SELECT COUNT(*) FROM dl_lake") == (200,)
    path.write_bytes(saved[0])
    rest.write_bytes(saved[1][:5_000] + b"\xa5" * 200 + saved[1][5_200:])
    with pytest.raises(LedgerCorruptError, match="Corrupt WAL") as caught:
        SqlTxnLogReader(ledger).tables()
    assert answer(caught.value) == "IOException"


# -- the disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with little space."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be made here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Take all space of a disk but a little."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        file.write(b"\0" * (shutil.disk_usage(folder).free - leave))
    return ballast


def test_a_full_disk_is_told_and_leaves_nothing(small_disk: Path, url: str, path: Path) -> None:
    shutil.copyfile(path, small_disk / "ledger.db")
    ledger = open_ledger(f"duckdb:///{small_disk}/ledger.db")
    writer, reader = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger)
    writer.commit([creation("t")])
    table = reader.table("t")
    before = list(reader.commits(table, 0, 9))
    ballast = fill(small_disk, 16_384)
    big = [add(f"{n}-" + "x" * 500) for n in range(200)]
    with pytest.raises(LedgerFullError, match="No space left") as caught:
        writer.commit([draft("t", *big), creation("u")])
    assert caught.value.error_class == "capacity"
    assert str(small_disk) in (caught.value.hint or "")
    # What has no space to be written may be read.
    assert list(reader.commits(table, 0, 9)) == before
    assert [entry.name for entry in reader.tables()] == ["t"]
    ballast.unlink()
    # With space again, the same commit goes through.
    assert writer.commit([draft("t", *big), creation("u")])
    assert len(paths(reader.files(table, 1))) == 200


def test_a_disk_that_may_not_be_written_is_a_wrong_setting(small_disk: Path, url: str, path: Path) -> None:
    shutil.copyfile(path, small_disk / "ledger.db")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ConfigError, match="Read-only") as caught:
        open_ledger(f"duckdb:///{small_disk}/ledger.db")
    assert "may write" in (caught.value.hint or "")


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_other_errors_of_the_database_are_errors_of_the_ledger(ledger: Ledger) -> None:
    for statement, name in [
        ("INSERT INTO dl_lake VALUES ('a', NULL, NULL)", "ConstraintException"),
        ("SELECT * FROM nowhere", "CatalogException"),
        ("SELECT 'No space left', 'Corrupt ', 'Could not set lock', nothing", "BinderException"),
        ("SELECT ?", "InvalidInputException"),
        ("BEGIN TRANSACTION", "TransactionException"),
    ]:
        with pytest.raises(LedgerError) as caught, ledger.write() as session:
            session.change(statement)
        assert type(caught.value) is LedgerError
        assert answer(caught.value) == name
        assert isinstance(caught.value.__cause__, duckdb.Error)
