"""Connections and transactions: rolled back on any error, given back, shared by threads."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from deltasql.errors import DeltaSqlError, LedgerError
from deltasql.failpoints import arm
from deltasql.ledger.engine import Ledger, Session
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.outcomes import Committed
from ledger_samples import add, creation, draft, paths, remove

pytestmark = pytest.mark.unit


class Interrupted(BaseException):
    """Like a keyboard interrupt: no `Exception`."""


class Connections(list[Any]):
    """The connections that were opened, oldest first."""

    def open(self) -> list[bool]:
        return [is_open(connection) for connection in self]


@pytest.fixture
def connections(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Connections:
    """Every connection that is opened from now on."""
    opened = Connections()
    connect = ledger.dialect.connect

    def counted() -> Any:
        opened.append(connect())
        return opened[-1]

    ledger.close()
    monkeypatch.setattr(ledger.dialect, "connect", counted)
    return opened


def note(session: Session, text: str) -> None:
    session.change("INSERT INTO dl_lake VALUES (?, NULL, 1)", (text,))


def notes(ledger: Ledger) -> list[str]:
    with ledger.read() as session:
        return [row[0] for row in session.rows("SELECT lake_id FROM dl_lake ORDER BY lake_id")]


def is_open(connection: Any) -> bool:
    try:
        connection.execute("SELECT 1")
    except (sqlite3.ProgrammingError, psycopg.OperationalError, duckdb.ConnectionException):
        return False
    return True


def kept(ledger: Ledger, transactions: int, at_once: int = 1) -> int:
    """How many connections so many transactions take: where they are kept, only as many as there were at once."""
    return at_once if ledger.dialect.keeps_connections else transactions


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_block_that_ends_is_kept(ledger: Ledger) -> None:
    with ledger.write() as session:
        note(session, "a")
        note(session, "b")
    assert notes(ledger) == ["a", "b"]


def test_a_block_that_asks_nothing_does_nothing(ledger: Ledger, connections: Connections) -> None:
    with ledger.write():
        pass
    with ledger.read():
        pass
    assert notes(ledger) == []
    assert len(connections) == kept(ledger, 3)


@pytest.mark.parametrize("error", [ValueError("mine"), Interrupted(), GeneratorExit()], ids=lambda e: type(e).__name__)
def test_a_block_that_raises_is_rolled_back(ledger: Ledger, connections: Connections, error: BaseException) -> None:
    def write_and_raise() -> None:
        with ledger.write() as session:
            note(session, "a")
            raise error

    with pytest.raises(type(error)) as caught:
        write_and_raise()
    assert caught.value is error
    assert notes(ledger) == []
    assert len(connections) == kept(ledger, 2)


def test_a_block_that_raises_before_it_asks_gives_its_connection_back(ledger: Ledger, connections: Connections) -> None:
    with pytest.raises(ValueError, match="mine"), ledger.write():
        raise ValueError("mine")
    with ledger.write() as session:
        note(session, "a")
    assert notes(ledger) == ["a"]
    assert len(connections) == kept(ledger, 3)


def test_a_statement_that_fails_takes_the_others_with_it(ledger: Ledger, connections: Connections) -> None:
    def write_twice() -> None:
        with ledger.write() as session:
            note(session, "a")
            note(session, "a")

    with pytest.raises(LedgerError):
        write_twice()
    assert notes(ledger) == []
    assert len(connections) == kept(ledger, 2)


def test_a_transaction_that_does_not_end_closes_its_connection(ledger: Ledger, connections: Connections) -> None:
    def end_twice() -> None:
        with ledger.write() as session:
            session.change("ROLLBACK")
            session.change("NONSENSE")

    with pytest.raises(LedgerError):
        end_twice()
    # PostgreSQL only warns of a transaction that is over; the others cannot tell what state they are in.
    assert connections.open() == [ledger.dialect.name == "postgresql"]


def test_what_is_no_error_of_the_database_stays_what_it_is(ledger: Ledger) -> None:
    assert ledger.dialect.classify(ValueError("mine")) is None
    assert ledger.dialect.classify(PermissionError("mine")) is None
    with pytest.raises(ValueError, match="mine"), ledger.write():
        raise ValueError("mine")


def test_a_view_stays_as_it_was(ledger: Ledger) -> None:
    with ledger.read() as session:
        assert session.rows("SELECT lake_id FROM dl_lake") == []
        with ledger.write() as other:
            note(other, "a")
        assert session.rows("SELECT lake_id FROM dl_lake") == []
    assert notes(ledger) == ["a"]


def test_a_look_is_one_statement_of_its_own(ledger: Ledger, connections: Connections) -> None:
    with ledger.look() as session:
        assert session.rows("SELECT lake_id FROM dl_lake") == []
    with pytest.raises(DeltaSqlError), ledger.look() as session:
        session.rows("SELECT * FROM nowhere")
    with ledger.write() as session:
        note(session, "a")
    with ledger.look() as session:
        assert session.row("SELECT lake_id FROM dl_lake") == ("a",)
    assert len(connections) == kept(ledger, 4)


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


def test_connections_are_used_again(ledger: Ledger, connections: Connections) -> None:
    for number in range(5):
        with ledger.write() as session:
            note(session, str(number))
        assert len(notes(ledger)) == number + 1
    assert len(connections) == kept(ledger, 10)


def test_one_transaction_inside_another_has_a_connection_of_its_own(ledger: Ledger, connections: Connections) -> None:
    with ledger.read(), ledger.read(), ledger.read():
        pass
    with ledger.read(), ledger.read(), ledger.read():
        pass
    assert len(connections) == kept(ledger, 6, at_once=3)


def test_a_stream_that_nobody_reads_to_its_end_gives_its_connection_back(
    ledger: Ledger, connections: Connections
) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t", add("a"), add("b"))])
    reader = SqlTxnLogReader(ledger)
    table = reader.table("t")
    stream = iter(reader.files(table, 0, batch_size=1))
    next(stream)
    del stream
    assert paths(reader.files(table, 0)) == ["a", "b"]
    assert len(connections) == kept(ledger, 4)


def test_closing_closes_what_is_idle_and_the_ledger_can_be_used_again(
    ledger: Ledger, connections: Connections, tmp_path: Path
) -> None:
    with ledger.read(), ledger.read():
        pass
    ledger.close()
    ledger.close()
    assert connections.open() == [False, False]
    # Nothing is left beside a file, where there is one.
    assert {file.name for file in tmp_path.iterdir()} <= {"ledger.db"}
    assert notes(ledger) == []
    assert len(connections) == 3


def test_the_rows_of_a_large_answer_come_in_parts(ledger: Ledger) -> None:
    with ledger.write() as session:
        for number in range(10):
            note(session, str(number))
    with ledger.read() as session:
        parts = list(session.batches("SELECT lake_id FROM dl_lake WHERE lake_id < ? ORDER BY lake_id", ("8",), 3))
        assert session.row("SELECT COUNT(*) FROM dl_lake") == (10,)
    assert [[row[0] for row in part] for part in parts] == [["0", "1", "2"], ["3", "4", "5"], ["6", "7"]]


# -- threads ----------------------------------------------------------------------------------------------------------


def test_eight_threads_get_every_version_once(ledger: Ledger) -> None:
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    start = threading.Barrier(8)
    # Each transaction of DuckDB opens the file, which takes its time.
    each = 50 if ledger.dialect.keeps_connections else 10

    def work(number: int) -> list[Committed]:
        start.wait()
        results = [writer.commit([draft("t", add(f"{number}-{n}"), read_version=0)]) for n in range(each)]
        return [result[0] for result in results if isinstance(result, tuple)]

    with ThreadPoolExecutor(8) as pool:
        results = [result for worker in pool.map(work, range(8)) for result in worker]
    assert Counter(result.version for result in results) == Counter(range(1, 8 * each + 1))
    reader = SqlTxnLogReader(ledger)
    table = reader.table("t")
    assert [commit.version for commit in reader.commits(table, 0, 999)] == list(range(8 * each + 1))
    assert sorted(paths(reader.files(table, 8 * each))) == sorted(f"{a}-{b}" for a in range(8) for b in range(each))
    assert len({result.timestamp for result in results}) == 8 * each
