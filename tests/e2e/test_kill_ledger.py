"""kill -9 between any two statements of a transaction over two tables: it stands whole, or not at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from deltasql.ledger.contracts import CommitDraft, RecordedCommit
from deltasql.ledger.dialects.duckdb import DuckdbDialect
from deltasql.ledger.dialects.sqlite import SqliteDialect
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.protocol.actions import AddFile, RemoveFile
from deltasql.protocol.jsonlog import sha256
from history import file_name
from ledger_samples import add, creation, draft, paths, remove, txn
from ledger_workers import start
from postgres_server import PostgresServer

pytestmark = pytest.mark.e2e

# Enough files for every way in which a database takes rows: one by one, several at once, in bulk.
MANY = 120


def adds(name: str, number: int) -> list[AddFile]:
    return [add(f"{name}-{n}") for n in range(number)]


# Each writes to two tables: `a` has a file `a-old`, and a new number makes new names.
TRANSACTIONS: dict[str, Callable[[int], list[CommitDraft]]] = {
    "files come and go": lambda n: [
        draft("a", add(f"a{n}"), add(f"a{n}+"), remove("a-old"), txn("app", n)),
        draft("b", *adds(f"b{n}", MANY)),
    ],
    "one of the tables is new": lambda n: [creation(f"new{n}", add("first")), draft("b", add(f"b{n}"))],
}


class Counting:
    """A driver's connection on which the process kills itself before its n-th statement."""

    def __init__(self, connection: Any, before: Callable[[], None]) -> None:
        self._connection = connection
        self._before = before

    def execute(self, *arguments: Any, **options: Any) -> Any:
        self._before()
        return self._connection.execute(*arguments, **options)

    def executemany(self, *arguments: Any) -> Any:
        self._before()
        return self._connection.executemany(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def commit_and_die(url: str, name: str, number: int, fatal: int) -> None:
    """Runs in a process of its own: a transaction that dies before its statement number `fatal`, if it has so many."""
    ledger = Ledger(url)
    kill_before(ledger.dialect.name, fatal)
    assert isinstance(SqlTxnLogWriter(ledger).commit(TRANSACTIONS[name](number)), tuple)


def kill_before(kind: str, fatal: int) -> None:
    left = [fatal]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if kind == "postgresql":
        import psycopg

        # Also between statements that are sent together, whose answers nobody has waited for yet.
        for owner, method in (
            (psycopg.Connection, "execute"),
            (psycopg.Cursor, "executemany"),
            (psycopg.Cursor, "copy"),
            (psycopg.Copy, "__exit__"),
            (psycopg.Pipeline, "sync"),
        ):
            setattr(owner, method, _counted(getattr(owner, method), count))
        return
    dialects: tuple[Any, ...] = (SqliteDialect, DuckdbDialect)
    for dialect in dialects:
        connect = dialect.connect
        dialect.connect = lambda self, connect=connect: Counting(connect(self), count)


def _counted(method: Callable[..., Any], count: Callable[[], None]) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        count()
        return method(*arguments, **options)

    return counted


# ---------------------------------------------------------------- what the survivor finds


def wait_for_the_dead(url: str, server: PostgresServer) -> None:
    """Until the server has noticed that nobody is there: till then it may still be at the last statement."""
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = %s"
    with server.admin() as admin:
        while admin.execute(query, (urlsplit(url).path[1:],)).fetchall():
            pass


def check_table(ledger: Ledger, name: str) -> list[RecordedCommit]:
    """Head, versions, debts, hashes and files of a table agree with each other."""
    reader, outbox = SqlTxnLogReader(ledger), SqlOutbox(ledger)
    table = reader.table(name)
    head = reader.head(table)
    commits = list(reader.commits(table, 0, 10_000))
    expected = list(range(head.version + 1))
    assert [commit.version for commit in commits] == expected
    assert commits[-1].timestamp == head.timestamp
    assert [(status.version, status.state) for status in outbox.status(table)] == [(v, "PENDING") for v in expected]
    assert outbox.mirror_head(table).published_version == -1
    live: dict[str, None] = {}
    for commit in commits:
        assert sha256(commit.encode() or b"") == commit.sha256
        for action in commit.actions:
            if isinstance(action, RemoveFile):
                del live[file_name(action)]
        live.update({file_name(action): None for action in commit.actions if isinstance(action, AddFile)})
    assert sorted(paths(reader.files(table, head.version))) == sorted(live)
    return commits


def stands(commits: dict[str, list[RecordedCommit]], drafts: Sequence[CommitDraft]) -> bool:
    """Whether the transaction is there: in all of its tables, or in none."""
    wanted = {one.table: {action.path for action in one.actions if isinstance(action, AddFile)} for one in drafts}
    found = {
        table: [
            commit
            for commit in commits.get(table, [])
            if {action.path for action in commit.actions if isinstance(action, AddFile)} == files
        ]
        for table, files in wanted.items()
    }
    counts = {len(those) for those in found.values()}
    assert counts in ({0}, {1}), found
    return counts == {1}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_transaction_that_is_killed_anywhere_stands_whole_or_not_at_all(
    kind: str, url: str, name: str, request: pytest.FixtureRequest
) -> None:
    ledger = open_ledger(url)
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("a", add("a-old"))])
    writer.commit([creation("b")])
    outcomes: list[bool] = []
    while True:
        number = len(outcomes) + 1
        ledger.close()
        process = start(commit_and_die, url, name, number, number)
        process.join()
        if kind == "postgresql":
            wait_for_the_dead(url, request.getfixturevalue("postgres"))
        drafts = TRANSACTIONS[name](number)
        # Held open meanwhile: to open a DuckDB file for each question would be most of the work.
        with closing(ledger.dialect.connect()):
            there = {entry.name for entry in SqlTxnLogReader(ledger).tables()}
            chosen = there & {"a", "b", *(one.table for one in drafts)}
            outcomes.append(stands({table: check_table(ledger, table) for table in chosen}, drafts))
            # The next one finds nothing in its way.
            again = [] if "a-old" in live(ledger) else [add("a-old")]
            following = [draft("a", add(f"next{number}"), *again), draft("b", add(f"next{number}"))]
            assert isinstance(writer.commit(following), tuple)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    ledger.close()
    # One that came to its end stands; one that was killed before its first statement does not.
    assert (outcomes[0], outcomes[-1]) == (False, True)
    assert len(outcomes) > 5
    # Whatever was killed before its COMMIT is gone, and only what was killed after it may be there.
    assert outcomes == sorted(outcomes)


def live(ledger: Ledger) -> list[str]:
    reader = SqlTxnLogReader(ledger)
    table = reader.table("a")
    return paths(reader.files(table, reader.head(table).version))
