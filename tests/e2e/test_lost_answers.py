"""The connection is lost during COMMIT: the commit is in the ledger once, and its caller hears the version it has."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import deltasql
from deltasql.client import Lake
from deltasql.errors import CommitUnknownError, LedgerUnavailableError
from deltasql.failpoints import arm
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.outcomes import Committed
from history import files_of
from ledger_samples import add, creation, draft
from ledger_workers import SCHEMA
from postgres_proxy import PostgresProxy, When
from postgres_server import PostgresServer

pytestmark = pytest.mark.e2e

CUTS: tuple[When, ...] = ("before", "after", "midway")


@pytest.fixture
def kind() -> str:
    return "postgresql"


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    with PostgresProxy(postgres.tcp_address, seed=7) as proxy:
        yield proxy


@pytest.fixture
def lake(url: str, tmp_path: Path, proxy: PostgresProxy) -> Iterator[Lake]:
    """A lake by way of the proxy, with empty tables `a` and `b`."""
    with deltasql.connect(proxy.url(url), root=str(tmp_path / "warehouse")) as lake:
        lake.create_table("a", SCHEMA)
        lake.create_table("b", SCHEMA)
        yield lake


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody tries for long: the connection will not come back while they do."""
    monkeypatch.setattr("deltasql.ledger.engine.RETRY_SECONDS", 0.05)


def contents(lake: Lake, name: str) -> list[set[str]]:
    """The files that each version after the first adds, in their order: asked of the ledger, not of who wrote them."""
    table = lake.table(name)
    commits = list(lake._services.reader.commits(table._entry, 0, table.version))
    assert [commit.version for commit in commits] == list(range(table.version + 1))
    assert [status.version for status in table.mirror_status()] == list(range(table.version + 1))
    return [set(files_of(commit.actions)[0]) for commit in commits[1:]]


# ---------------------------------------------------------------- the server can be reached again


@pytest.mark.parametrize("number", [100, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("when", CUTS)
def test_commits_are_made_once_however_often_their_answers_are_lost(
    lake: Lake, proxy: PostgresProxy, when: When, number: int
) -> None:
    table = lake.table("a")
    proxy.cut_commit(when, times=None, chance=0.5)
    told = [table.commit([add(str(n))]) for n in range(number)]
    proxy.heal()
    assert getattr(proxy.counts, f"cut_{when}") > number / 4
    assert [one.version for one in told] == list(range(1, number + 1))
    assert contents(lake, "a") == [{str(n)} for n in range(number)]
    replayed = sum(one.replayed for one in told)
    # Only what was cut after the server had it can be found again.
    assert (replayed == 0) if when == "before" else (replayed > 0 or when == "midway")


@pytest.mark.parametrize("when", CUTS)
def test_transactions_are_made_once_however_often_their_answers_are_lost(
    lake: Lake, proxy: PostgresProxy, when: When
) -> None:
    proxy.cut_commit(when, times=None, chance=0.5)
    told: list[tuple[Committed, ...]] = []
    for n in range(25):
        with lake.transaction() as transaction:
            transaction.table("b").commit([add(str(n))])
            transaction.table("a").commit([add(str(n))])
        told.append(transaction.result)
    proxy.heal()
    assert getattr(proxy.counts, f"cut_{when}") > 5
    assert [[one.version for one in result] for result in told] == [[n, n] for n in range(1, 26)]
    assert contents(lake, "a") == contents(lake, "b") == [{str(n)} for n in range(25)]
    assert len({one.group_id for result in told for one in result}) == 25


@pytest.mark.parametrize("when", CUTS)
def test_tables_are_created_once_however_often_the_answers_are_lost(
    lake: Lake, proxy: PostgresProxy, when: When
) -> None:
    proxy.cut_commit(when, times=None, chance=0.5)
    for n in range(12):
        assert lake.create_table(f"new{n}", SCHEMA).version == 0
    proxy.heal()
    assert getattr(proxy.counts, f"cut_{when}") > 2
    assert sorted(table.name for table in lake.tables()) == sorted(["a", "b", *(f"new{n}" for n in range(12))])
    assert {contents(lake, f"new{n}") == [] for n in range(12)} == {True}


@pytest.mark.parametrize("when", CUTS)
def test_one_of_many_threads_that_loses_its_answer_disturbs_no_other(
    lake: Lake, proxy: PostgresProxy, when: When
) -> None:
    table = lake.table("a")
    proxy.cut_commit(when, times=None, chance=0.3)

    def work(thread: int) -> list[tuple[str, Committed]]:
        return [(path, table.commit([add(path)])) for path in (f"{thread}-{n}" for n in range(15))]

    with ThreadPoolExecutor(4) as pool:
        told = [pair for found in pool.map(work, range(4)) for pair in found]
    proxy.heal()
    found = contents(lake, "a")
    assert len(found) == len(told) == 60
    assert {one.version: {path} for path, one in told} == dict(enumerate(found, start=1))


# ---------------------------------------------------------------- the server cannot be reached again


def lost(proxy: PostgresProxy, when: When, call: Callable[[], object]) -> str:
    """Lose the answer to a commit, and every connection after it; the token that the caller is given."""
    proxy.cut_commit(when)
    proxy.refuse(True)
    with pytest.raises(CommitUnknownError) as caught:
        call()
    proxy.refuse(False)
    assert getattr(proxy.counts, f"cut_{when}") == 1
    assert caught.value.token
    assert caught.value.token in str(caught.value)
    assert not caught.value.retry
    return caught.value.token


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("own", [None, "job-17"], ids="token={}".format)
@pytest.mark.parametrize("when", CUTS)
def test_who_cannot_know_gets_a_token_and_finds_out_with_it(
    lake: Lake, proxy: PostgresProxy, when: When, own: str | None
) -> None:
    table = lake.table("a")
    token = lost(proxy, when, lambda: table.commit([add("lost")], token=own))
    assert own in (None, token)
    again = table.commit([add("lost")], token=token)
    assert (again.version, again.replayed) in {"before": [(1, False)], "after": [(1, True)]}.get(
        when, [(1, False), (1, True)]
    )
    assert table.commit([add("lost")], token=token).version == 1
    assert table.commit([add("next")]).version == 2
    assert contents(lake, "a") == [{"lost"}, {"next"}]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", CUTS)
def test_a_transaction_that_cannot_know_is_found_out_whole(lake: Lake, proxy: PostgresProxy, when: When) -> None:
    def transaction(token: str | None = None) -> tuple[Committed, ...]:
        with lake.transaction(token=token) as transaction:
            transaction.table("a").commit([add("lost")])
            transaction.table("b").commit([add("lost")])
        return transaction.result

    token = lost(proxy, when, transaction)
    results = [transaction(token) for _ in range(2)]
    assert [[one.version for one in result] for result in results] == [[1, 1], [1, 1]]
    assert len({one.group_id for result in results for one in result}) == 1
    assert all(one.replayed for one in results[1])
    if when != "midway":
        assert all(one.replayed == (when == "after") for one in results[0])
    assert contents(lake, "a") == contents(lake, "b") == [{"lost"}]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", CUTS)
def test_a_creation_that_cannot_know_is_found_out(url: str, proxy: PostgresProxy, when: When) -> None:
    ledger = open_ledger(proxy.url(url))
    writer = SqlTxnLogWriter(ledger)
    token = lost(proxy, when, lambda: writer.commit([creation("new", add("first"))]))
    for replayed in (when == "after", True):
        outcome = writer.commit([creation("new", add("first"), token=token)])
        assert isinstance(outcome, tuple)
        assert outcome[0].version == 0
        assert outcome[0].replayed == replayed or when == "midway"
    reader = SqlTxnLogReader(ledger)
    assert [entry.name for entry in reader.tables()] == ["new"]
    assert len(list(reader.commits(reader.table("new"), 0, 9))) == 1
    ledger.close()


@pytest.mark.usefixtures("impatient")
def test_who_was_cut_between_two_statements_knows_that_nothing_stands(lake: Lake, proxy: PostgresProxy) -> None:
    transaction = lake.transaction()
    for name in ("a", "b"):
        transaction.table(name).commit([add("lost")])

    def cut() -> None:
        proxy.refuse(True)
        proxy.cut_all()

    # After the statements of the first table, before those of the second.
    with arm("after_head_moved", cut), pytest.raises(LedgerUnavailableError) as caught, transaction:
        pass
    assert not isinstance(caught.value, CommitUnknownError)
    assert caught.value.retry
    proxy.refuse(False)
    assert contents(lake, "a") == contents(lake, "b") == []
    assert lake.table("a").commit([add("next")]).version == 1


# ---------------------------------------------------------------- an application's own count


def test_a_count_that_was_committed_is_not_committed_again(lake: Lake, proxy: PostgresProxy) -> None:
    table = lake.table("a")
    proxy.cut_commit("after")
    first = table.commit([add("x")], txn=("app", 5))
    assert (first.version, first.replayed, proxy.counts.cut_after) == (1, True, 1)
    for count in (5, 4, 0):
        again = table.commit([add("x")], txn=("app", count))
        assert (again.version, again.timestamp, again.replayed) == (1, first.timestamp, True)
    assert table.commit([add("y")], txn=("other", 1)).version == 2
    assert table.commit([add("z")], txn=("app", 6)).version == 3
    assert table.commit([add("z")], txn=("app", 5)).version == 3
    assert contents(lake, "a") == [{"x"}, {"y"}, {"z"}]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("when", CUTS)
def test_a_count_finds_out_what_a_token_would(lake: Lake, proxy: PostgresProxy, when: When) -> None:
    table = lake.table("a")
    lost(proxy, when, lambda: table.commit([add("x")], txn=("app", 1)))
    for _ in range(2):
        assert table.commit([add("x")], txn=("app", 1)).version == 1
    assert contents(lake, "a") == [{"x"}]


# ---------------------------------------------------------------- sessions that the server ends


def end_sessions(admin: psycopg.Connection[Any], url: str) -> int:
    query = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
    return len(admin.execute(query, (urlsplit(url).path[1:],)).fetchall())


@pytest.mark.parametrize("rounds", [40, pytest.param(240, marks=pytest.mark.slow)])
def test_sessions_that_are_ended_again_and_again_lose_nothing(url: str, postgres: PostgresServer, rounds: int) -> None:
    ledger = open_ledger(url)
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    told: dict[str, Committed] = {}
    begin, through = threading.Semaphore(0), threading.Semaphore(0)

    def work(thread: int) -> None:
        for n in range(rounds * 5 // 4):  # without remainder: as many commits as there are permits
            begin.acquire()
            try:
                outcome = writer.commit([draft("t", add(f"{thread}-{n}"))])
                assert isinstance(outcome, tuple)
                told[f"{thread}-{n}"] = outcome[0]
            finally:
                through.release()

    ended, chance = 0, random.Random(3)
    with ThreadPoolExecutor(4) as pool, postgres.admin() as admin:
        working = [pool.submit(work, thread) for thread in range(4)]
        try:
            for _ in range(rounds):
                begin.release(5)
                # Some of the five are through by then, the others between their first statement and their last.
                before = chance.randrange(5)
                for place in range(5):
                    if place == before:
                        ended += end_sessions(admin, url)
                    assert through.acquire(timeout=60)
        finally:
            # Whoever is left after a failure shall not wait for ever.
            begin.release(5 * rounds)
        for future in working:
            future.result()
    assert ended > rounds
    reader = SqlTxnLogReader(open_ledger(url))
    commits = list(reader.commits(reader.table("t"), 0, 5 * rounds))
    assert [commit.version for commit in commits] == list(range(5 * rounds + 1))
    found = {commit.version: files_of(commit.actions)[0] for commit in commits[1:]}
    assert found == {one.version: {path} for path, one in told.items()}
    ledger.close()


def test_a_read_whose_session_ends_is_made_again(
    url: str, lake: Lake, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table("a")
    # The farewell of the server comes between the look at the connection and its use.
    monkeypatch.setattr("deltasql.ledger.dialects.postgresql.PostgresSession.usable", lambda session: True)
    with postgres.admin() as admin:
        assert end_sessions(admin, url) > 0
    assert table.snapshot().version == 0


def test_who_cannot_know_is_told_so_even_if_the_ledger_is_only_busy_then(
    url: str, proxy: PostgresProxy, postgres: PostgresServer
) -> None:
    """The answer is lost, and the second try fails for another reason: the first may stand all the same."""
    ledger = open_ledger(f"{proxy.url(url)}?lock_timeout=1")
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    proxy.cut_commit("after")
    with ThreadPoolExecutor(1) as pool, postgres.admin(url) as other:
        held: list[Future[object]] = []

        def queue_for_the_head() -> None:
            if not held:
                other.execute("BEGIN")
                held.append(pool.submit(other.execute, "SELECT * FROM dl_table_heads FOR UPDATE"))
                wait_for_a_lock(postgres, url)

        try:
            with arm("before_sql_commit", queue_for_the_head), pytest.raises(LedgerUnavailableError) as caught:
                writer.commit([draft("t", add("lost"))])
        finally:
            held[0].result()
            other.execute("ROLLBACK")
            ledger.close()
    assert isinstance(caught.value, CommitUnknownError)


def wait_for_a_lock(server: PostgresServer, url: str) -> None:
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    with server.admin() as admin:
        while not admin.execute(query, (urlsplit(url).path[1:],)).fetchall():
            pass
