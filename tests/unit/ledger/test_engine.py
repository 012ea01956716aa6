"""Connections and transactions: rolled back on any error, given back, shared by threads, left alone after a fork."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltasql.errors import LedgerError
from deltasql.failpoints import arm
from deltasql.ledger.engine import Ledger, Session, open_ledger
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.outcomes import Committed
from ledger_samples import add, creation, draft, paths, remove

pytestmark = pytest.mark.unit


class Interrupted(BaseException):
    """Like a keyboard interrupt: no `Exception`."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield ledger
    ledger.close()


@pytest.fixture
def connections(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Every connection that is opened from now on."""
    opened: list[sqlite3.Connection] = []
    connect = ledger.dialect.connect

    def counted() -> sqlite3.Connection:
        opened.append(connect())
        return opened[-1]

    ledger.close()
    monkeypatch.setattr(ledger.dialect, "connect", counted)
    return opened


def note(session: Session, text: str) -> None:
    session.execute("INSERT INTO dl_lake VALUES (?, NULL, 1)", (text,))


def notes(ledger: Ledger) -> list[str]:
    with ledger.read() as session:
        return [row[0] for row in session.rows("SELECT lake_id FROM dl_lake ORDER BY lake_id")]


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_block_that_ends_is_kept(ledger: Ledger) -> None:
    with ledger.write() as session:
        note(session, "a")
        note(session, "b")
    assert notes(ledger) == ["a", "b"]


@pytest.mark.parametrize("error", [ValueError("mine"), Interrupted(), GeneratorExit()], ids=lambda e: type(e).__name__)
def test_a_block_that_raises_is_rolled_back(
    ledger: Ledger, connections: list[sqlite3.Connection], error: BaseException
) -> None:
    def write_and_raise() -> None:
        with ledger.write() as session:
            note(session, "a")
            raise error

    with pytest.raises(type(error)) as caught:
        write_and_raise()
    assert caught.value is error
    assert notes(ledger) == []
    assert len(connections) == 1


def test_a_statement_that_fails_takes_the_others_with_it(ledger: Ledger, connections: list[sqlite3.Connection]) -> None:
    def write_twice() -> None:
        with ledger.write() as session:
            note(session, "a")
            note(session, "a")

    with pytest.raises(LedgerError):
        write_twice()
    assert notes(ledger) == []
    assert len(connections) == 1


def test_why_the_database_rolled_back_is_not_lost(ledger: Ledger, connections: list[sqlite3.Connection]) -> None:
    """After some errors SQLite has rolled back by itself, and says so when asked to do it again."""
    with pytest.raises(LedgerError, match="CONSTRAINT"), ledger.write() as session:
        session.executemany("INSERT OR ROLLBACK INTO dl_lake VALUES (?, NULL, 1)", [("a",), ("a",)])
    assert notes(ledger) == []
    # Nobody knows what state that connection is in, so there is a new one.
    assert [is_open(connection) for connection in connections] == [False, True]


def test_a_transaction_that_does_not_begin_or_end_closes_its_connection(
    ledger: Ledger, connections: list[sqlite3.Connection]
) -> None:
    with pytest.raises(LedgerError), ledger.write() as session:
        session.execute("ROLLBACK")
    ledger.dialect.begin_write = "BEGIN NONSENSE"
    with pytest.raises(LedgerError), ledger.write():
        pass
    assert [is_open(connection) for connection in connections] == [False, False]


def test_a_view_stays_as_it_was(ledger: Ledger) -> None:
    with ledger.read() as session:
        assert session.rows("SELECT lake_id FROM dl_lake") == []
        with ledger.write() as other:
            note(other, "a")
        assert session.rows("SELECT lake_id FROM dl_lake") == []
    assert notes(ledger) == ["a"]


@pytest.mark.parametrize("place", ["after_head_moved", "before_sql_commit"])
def test_a_commit_that_is_broken_off_leaves_nothing(ledger: Ledger, place: str) -> None:
    writer, reader, outbox = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger), SqlOutbox(ledger)
    writer.commit([creation("a", add("x"))])
    table = reader.table("a")
    before = (list(reader.commits(table, 0, 9)), outbox.status(table), reader.history(table))

    def fail() -> None:
        raise Interrupted

    drafts = [draft("a", remove("x"), add("y"), token="job"), creation("b")]
    with arm(place, fail), pytest.raises(Interrupted):
        writer.commit(drafts)
    assert (list(reader.commits(table, 0, 9)), outbox.status(table), reader.history(table)) == before
    assert paths(reader.files(table, 9)) == ["x"]
    assert [entry.name for entry in reader.tables()] == ["a"]
    results = writer.commit(drafts)
    assert isinstance(results, tuple)
    assert [(result.version, result.replayed) for result in results] == [(1, False), (0, False)]


# -- connections ------------------------------------------------------------------------------------------------------


def test_connections_are_used_again(ledger: Ledger, connections: list[sqlite3.Connection]) -> None:
    for number in range(5):
        with ledger.write() as session:
            note(session, str(number))
        assert len(notes(ledger)) == number + 1
    assert len(connections) == 1


def test_one_transaction_inside_another_has_a_connection_of_its_own(
    ledger: Ledger, connections: list[sqlite3.Connection]
) -> None:
    with ledger.read(), ledger.read(), ledger.read():
        pass
    with ledger.read(), ledger.read(), ledger.read():
        pass
    assert len(connections) == 3


def test_a_stream_that_nobody_reads_to_its_end_gives_its_connection_back(
    ledger: Ledger, connections: list[sqlite3.Connection]
) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t", add("a"), add("b"))])
    reader = SqlTxnLogReader(ledger)
    table = reader.table("t")
    stream = iter(reader.files(table, 0, batch_size=1))
    next(stream)
    del stream
    assert paths(reader.files(table, 0)) == ["a", "b"]
    assert len(connections) == 1


def test_closing_closes_what_is_idle_and_the_ledger_can_be_used_again(
    ledger: Ledger, connections: list[sqlite3.Connection], tmp_path: Path
) -> None:
    with ledger.read(), ledger.read():
        pass
    ledger.close()
    ledger.close()
    assert [is_open(connection) for connection in connections] == [False, False]
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]
    assert notes(ledger) == []
    assert len(connections) == 3


# -- threads ----------------------------------------------------------------------------------------------------------


def test_eight_threads_get_every_version_once(ledger: Ledger) -> None:
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    start = threading.Barrier(8)

    def work(number: int) -> list[Committed]:
        start.wait()
        results = [writer.commit([draft("t", add(f"{number}-{n}"), read_version=0)]) for n in range(50)]
        return [result[0] for result in results if isinstance(result, tuple)]

    with ThreadPoolExecutor(8) as pool:
        results = [result for worker in pool.map(work, range(8)) for result in worker]
    assert Counter(result.version for result in results) == Counter(range(1, 401))
    reader = SqlTxnLogReader(ledger)
    table = reader.table("t")
    assert [commit.version for commit in reader.commits(table, 0, 999)] == list(range(401))
    assert sorted(paths(reader.files(table, 400))) == sorted(f"{a}-{b}" for a in range(8) for b in range(50))
    assert len({result.timestamp for result in results}) == 400


# -- forks ------------------------------------------------------------------------------------------------------------


FORK = """
import os, sys
from deltasql.ledger.engine import open_ledger

def note(text):
    with ledger.write() as session:
        session.execute("INSERT INTO dl_lake VALUES (?, NULL, 1)", (text,))

ledger = open_ledger(sys.argv[1])
note("parent, before")
to_child, from_parent = os.pipe()
to_parent, from_child = os.pipe()
child = os.fork()
if child == 0:
    note("child, first")
    os.write(from_child, b".")
    os.read(to_child, 1)
    # By now the parent has closed its last connection, as far as it knows.
    note("child, second")
    os._exit(0)
os.read(to_parent, 1)
note("parent, after")
ledger.close()
os.write(from_parent, b".")
print(os.waitpid(child, 0)[1])
"""


def test_what_a_child_commits_is_not_lost_when_its_parent_closes(ledger: Ledger) -> None:
    ledger.close()
    done = subprocess.run([sys.executable, "-c", FORK, ledger.url], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
    assert notes(ledger) == ["child, first", "child, second", "parent, after", "parent, before"]


def test_a_connection_of_another_process_is_neither_used_nor_closed(
    ledger: Ledger, connections: list[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger.read(), ledger.read():
        pass
    inherited = list(connections)
    # As it is in a child, where a thread of the parent gave a connection back in the moment of the fork.
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with ledger.read():
        pass
    ledger.close()
    assert [is_open(connection) for connection in inherited] == [True, True]
    assert [is_open(connection) for connection in connections[2:]] == [False]
    monkeypatch.undo()
    for connection in inherited:
        connection.close()
