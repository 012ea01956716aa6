"""The proxy before PostgreSQL does to a COMMIT what it says, however the COMMIT was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import generators

from postgres_proxy import PostgresProxy
from postgres_server import PostgresServer

pytestmark = pytest.mark.contract

Connection = psycopg.Connection[tuple[object, ...]]
INSERT = "INSERT INTO commits VALUES (%s)"


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.new_database()
    with postgres.admin(url) as admin:
        admin.execute("CREATE TABLE commits (token text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
    yield url
    postgres.drop(url)


@pytest.fixture(autouse=True)
def empty(postgres: PostgresServer, database: str) -> None:
    with postgres.admin(database) as admin:
        admin.execute("TRUNCATE commits")


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    with PostgresProxy(postgres.tcp_address) as proxy:
        yield proxy


@pytest.fixture
def tokens(postgres: PostgresServer, database: str) -> Callable[[], set[object]]:
    """The rows that are there, once no other session is left that could still add or hold any."""

    def look() -> set[object]:
        with postgres.admin(database) as admin, admin.transaction():
            # The lock is granted only when every transaction that wrote to the table has ended.
            admin.execute("LOCK TABLE commits IN SHARE MODE")
            return {token for (token,) in admin.execute("SELECT token FROM commits")}

    return look


def connect(proxy: PostgresProxy, database: str) -> Connection:
    return psycopg.connect(proxy.url(database), autocommit=True)


def simple(connection: Connection, token: str) -> None:
    """Three simple queries, the last of them the COMMIT."""
    connection.pgconn.exec_(b"BEGIN")
    connection.pgconn.exec_(f"INSERT INTO commits VALUES ('{token}')".encode())
    answered(connection, connection.pgconn.exec_(b" commit ;"))


def one_query(connection: Connection, token: str) -> None:
    """All statements in one simple query."""
    text = f"BEGIN; INSERT INTO commits VALUES ('{token}'); COMMIT"
    answered(connection, connection.pgconn.exec_(text.encode()))


def extended(connection: Connection, token: str) -> None:
    with connection.transaction():
        connection.execute(INSERT, [token])


def driver(connection: Connection, token: str) -> None:
    """As `commit()` sends it."""
    connection.autocommit = False
    connection.execute(INSERT, [token])
    connection.commit()


def prepared(connection: Connection, token: str) -> None:
    """A COMMIT parsed long before, under a name."""
    pgconn = connection.pgconn
    pgconn.prepare(b"finish", b"COMMIT")
    pgconn.prepare(b"other", b"SELECT 1")
    pgconn.exec_(b"BEGIN")
    pgconn.exec_params(b"INSERT INTO commits VALUES ($1)", [token.encode()])
    pgconn.exec_prepared(b"other", [])
    answered(connection, pgconn.exec_prepared(b"finish", []))


def pipelined(connection: Connection, token: str) -> None:
    """Everything in one write, with one Sync at its end."""
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute(INSERT, [token])
        connection.execute("COMMIT")


def pipelined_prepared(connection: Connection, token: str) -> None:
    with connection.pipeline():
        connection.execute("BEGIN", prepare=True)
        connection.execute(INSERT, [token], prepare=True)
        connection.execute("COMMIT", prepare=True)


def pipelined_and_more(connection: Connection, token: str) -> None:
    """The pipeline goes on after the COMMIT, and answers are asked for in between."""
    with connection.pipeline():
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        with connection.transaction():
            connection.execute(INSERT, [token])
        connection.execute("SELECT 2")


def copied(connection: Connection, token: str) -> None:
    """COPY keeps a Sync from being answered, if it was sent in the extended protocol."""
    with connection.cursor() as cursor, connection.transaction():
        with cursor.copy("COPY commits FROM STDIN") as copy:
            copy.write_row([token])
        pgconn = connection.pgconn
        pgconn.exec_params(b"COPY commits FROM STDIN", None)
        pgconn.put_copy_data(f"{token} again\n".encode())
        pgconn.put_copy_end()
        # Waits without the interpreter's lock, which the proxy's threads need.
        connection.wait(generators.execute(pgconn))


def answered(connection: Connection, result: psycopg.pq.abc.PGresult) -> None:
    """What the driver would do with the answer to its COMMIT."""
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.OperationalError(result.get_error_message())


WAYS = [
    simple,
    one_query,
    extended,
    driver,
    prepared,
    pipelined,
    pipelined_prepared,
    pipelined_and_more,
    copied,
]
Way = Callable[[Connection, str], None]
every_way = pytest.mark.parametrize("write", WAYS, ids=lambda way: way.__name__)


@every_way
def test_without_a_fault_everything_passes_unharmed(
    write: Way, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    with connect(proxy, database) as connection:
        write(connection, "a")
        assert "a" in tokens()
    assert proxy.counts.connections == 1
    assert proxy.counts.commits == 1


@every_way
def test_cut_before_a_commit_it_never_happens(
    write: Way, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    proxy.cut_commit("before")
    with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
        write(connection, "a")
    assert tokens() == set()
    assert proxy.counts.cut_before == 1


@every_way
def test_cut_after_a_commit_it_stands_and_the_client_does_not_know(
    write: Way, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    proxy.cut_commit("after")
    with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
        write(connection, "a")
    assert "a" in tokens()
    assert proxy.counts.cut_after == 1


@every_way
def test_cut_midway_the_client_knows_nothing_and_the_row_is_there_or_not(
    write: Way, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    proxy.cut_commit("midway")
    with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
        write(connection, "a")
    assert tokens() <= {"a", "a again"}
    assert proxy.counts.cut_midway == 1


def test_answers_before_the_commit_reach_the_client(proxy: PostgresProxy, database: str) -> None:
    seen: list[object] = []

    def write(connection: Connection) -> None:
        with connection.pipeline():
            connection.execute("BEGIN")
            seen.append(connection.execute("INSERT INTO commits VALUES ('a') RETURNING token").fetchone())
            connection.execute("COMMIT")

    proxy.cut_commit("after")
    with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
        write(connection)
    assert seen == [("a",)]


def test_only_as_many_commits_are_cut_as_were_asked_for(
    proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    proxy.cut_commit("after", times=2)
    for token in ("a", "b"):
        with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
            extended(connection, token)
    with connect(proxy, database) as connection:
        extended(connection, "c")
    assert tokens() == {"a", "b", "c"}
    assert (proxy.counts.commits, proxy.counts.cut_after) == (3, 2)


def test_a_chance_cuts_some_commits_and_spares_others(proxy: PostgresProxy, database: str) -> None:
    proxy.cut_commit("before", times=None, chance=0.5)
    cut = 0
    for number in range(40):
        with connect(proxy, database) as connection:
            try:
                pipelined(connection, str(number))
            except psycopg.OperationalError:
                cut += 1
    assert 0 < cut < 40
    assert proxy.counts.cut_before == cut
    proxy.heal()
    with connect(proxy, database) as connection:
        pipelined(connection, "healed")


def test_the_second_commit_of_a_pipeline_can_be_the_one_that_is_cut(
    proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    def write(connection: Connection) -> None:
        with connection.pipeline() as pipeline:
            extended(connection, "a")
            pipeline.sync()
            proxy.cut_commit("before")
            extended(connection, "b")

    with connect(proxy, database) as connection, pytest.raises(psycopg.OperationalError):
        write(connection)
    assert tokens() == {"a"}


@pytest.mark.parametrize("heard", [False, True], ids=["error_in_flight", "error_already_heard"])
def test_a_commit_that_was_never_run_is_not_the_one_that_is_cut(
    heard: bool, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    def fail(connection: Connection) -> None:
        with connection.pipeline():
            connection.execute("BEGIN")
            cursor = connection.execute("INSERT INTO nowhere VALUES (1)")
            if heard:
                with pytest.raises(psycopg.errors.UndefinedTable):
                    cursor.fetchone()
            connection.execute("COMMIT")

    proxy.cut_commit("after")
    with connect(proxy, database) as connection:
        with pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.PipelineAborted)):
            fail(connection)
        connection.rollback()
        assert proxy.counts.cut_after == 0
        with pytest.raises(psycopg.OperationalError):
            pipelined(connection, "a")
    assert tokens() == {"a"}
    assert proxy.counts.cut_after == 1


@pytest.mark.parametrize("write", [driver, pipelined], ids=lambda way: way.__name__)
def test_a_commit_that_the_server_refuses_is_cut_too(
    write: Way, proxy: PostgresProxy, database: str, tokens: Callable[[], set[object]]
) -> None:
    with connect(proxy, database) as connection:
        extended(connection, "a")
        proxy.cut_commit("after")
        # The same token again: the server notices at the COMMIT.
        with pytest.raises(psycopg.OperationalError) as caught:
            write(connection, "a")
    assert not isinstance(caught.value, psycopg.IntegrityError)
    assert proxy.counts.cut_after == 1
    assert tokens() == {"a"}


@pytest.mark.parametrize("sql", ["ROLLBACK", "SELECT 'COMMIT'", "DO $$ BEGIN PERFORM 1; END; $$"])
def test_what_is_no_commit_is_left_alone(sql: str, proxy: PostgresProxy, database: str) -> None:
    proxy.cut_commit("before")
    with connect(proxy, database) as connection:
        connection.execute(sql.encode())
    assert proxy.counts.commits == 0


def test_all_connections_can_be_cut_at_once(proxy: PostgresProxy, database: str) -> None:
    with connect(proxy, database) as first, connect(proxy, database) as second:
        proxy.cut_all()
        for connection in (first, second):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert proxy.counts.cut_all == 2


def test_new_connections_are_refused_while_told_so_and_old_ones_live_on(proxy: PostgresProxy, database: str) -> None:
    with connect(proxy, database) as old:
        proxy.refuse(True)
        with pytest.raises(psycopg.OperationalError):
            connect(proxy, database)
        assert old.execute("SELECT 1").fetchone() == (1,)
        proxy.refuse(False)
        connect(proxy, database).close()
    assert proxy.counts.refused >= 1
    assert proxy.counts.connections == 2


def test_a_delay_holds_up_what_the_client_sends(proxy: PostgresProxy, database: str) -> None:
    with connect(proxy, database) as connection:
        proxy.delay = 0.05
        began = time.monotonic()
        connection.execute("SELECT 1")
        assert time.monotonic() - began >= 0.05
        proxy.delay = 0.0


def test_a_frame_larger_than_any_read_passes_whole(proxy: PostgresProxy, database: str) -> None:
    text = "x" * 3_000_000
    with connect(proxy, database) as connection:
        assert connection.execute("SELECT %s::text", [text]).fetchone() == (text,)


def test_a_socket_url_is_led_through_the_proxy_too(
    postgres: PostgresServer, proxy: PostgresProxy, database: str
) -> None:
    url = f"{database}?host=%2Fnowhere&port=1&application_name=me"
    with psycopg.connect(proxy.url(url)) as connection:
        assert connection.execute("SHOW application_name").fetchone() == ("me",)
    assert proxy.counts.connections == 1


def test_nothing_is_left_of_a_proxy_that_has_ended(postgres: PostgresServer, database: str) -> None:
    with PostgresProxy(postgres.tcp_address) as proxy:
        connection = connect(proxy, database)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
    with pytest.raises(psycopg.OperationalError):
        connect(proxy, database)
