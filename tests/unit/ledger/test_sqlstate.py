"""PostgreSQL's errors as ours, each of them provoked; and no password in any of them."""

from __future__ import annotations

import socket
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerRaceError,
    LedgerUnavailableError,
    UnsupportedError,
)
from deltasql.failpoints import arm
from deltasql.ledger import engine
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import add, creation, draft, paths
from postgres_server import ENVIRONMENT, PostgresServer
from postgres_server import server as new_server

pytestmark = pytest.mark.unit

CANARY = "canary-in-the-mine"


@pytest.fixture
def kind() -> str:
    return "postgresql"


@pytest.fixture
def role(server: PostgresServer) -> Iterator[str]:
    """A user of the server who may do nothing yet, but has a password."""
    name = f"deltasql_test_{uuid4().hex}"
    with server.admin() as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{CANARY}'".encode())
    yield name
    with server.admin() as admin:
        admin.execute(f"DROP ROLE {name}".encode())


@pytest.fixture
def role_url(url: str, role: str, server: PostgresServer) -> Iterator[str]:
    """The ledger as this user opens it."""
    with server.admin(url) as admin:
        admin.execute(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}".encode())
    yield as_user(url, role)
    with server.admin(url) as admin:
        admin.execute(f"DROP OWNED BY {role}".encode())


def as_user(url: str, user: str, password: str = CANARY) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port}"))


def code(error: DeltaSqlError) -> str:
    """The server's code, as it stands in the message. Whatever a log may show of the error holds no password."""
    assert error.hint
    told = traceback.TracebackException.from_exception(error).format()
    assert CANARY not in "".join(line for line in told if not line.startswith("  File"))
    assert CANARY not in str(error.as_dict())
    return error.message.partition(" answered ")[2].partition(":")[0].partition("(")[2].rstrip(")")


def provoke(ledger: Ledger, state: str) -> DeltaSqlError:
    with pytest.raises(DeltaSqlError) as caught, ledger.write() as session:
        session.change(f"DO $$ BEGIN RAISE EXCEPTION 'provoked' USING ERRCODE = '{state}'; END $$")
    return caught.value


STATES: dict[str, type[DeltaSqlError]] = {
    **dict.fromkeys(("40001", "40P01", "23505", "55006", "22012"), LedgerRaceError),
    **dict.fromkeys(("55P03", "57014", "53200", "53300"), LedgerBusyError),
    **dict.fromkeys(("08000", "08006", "57P01", "57P02", "57P03", "57P05", "25P03"), LedgerUnavailableError),
    **dict.fromkeys(("28000", "28P01", "3D000", "3F000", "42501", "42P01", "25006", "22021", "22P05"), ConfigError),
    "53100": LedgerFullError,
    "XX001": LedgerCorruptError,
    "XX002": LedgerCorruptError,
    "54000": UnsupportedError,
    **dict.fromkeys(("23502", "42601", "XX000", "P0001", "58030"), LedgerError),
}


@pytest.mark.parametrize("state", STATES)
def test_a_code_has_one_meaning(role_url: str, state: str) -> None:
    ledger = Ledger(role_url)
    error = provoke(ledger, state)
    assert type(error) is STATES[state]
    assert code(error) == state
    assert "provoked" in error.message
    assert isinstance(error.__cause__, psycopg.Error)
    ledger.close()


# -- a connection that is not made ------------------------------------------------------------------------------------


def refused(url: str, error: type[DeltaSqlError]) -> DeltaSqlError:
    with pytest.raises(error) as caught:
        open_ledger(url)
    assert type(caught.value) is error
    assert code(caught.value) == ""
    return caught.value


def test_a_wrong_password_is_a_wrong_setting(url: str) -> None:
    error = refused(as_user(url, "postgres"), ConfigError)
    assert "password authentication failed" in error.message
    assert "password" in (error.hint or "")


def test_a_missing_password_is_a_wrong_setting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    error = refused(as_user(url, "postgres", ""), ConfigError)
    assert "no password supplied" in error.message


def test_a_user_that_may_not_log_in_is_a_wrong_setting(role_url: str, role: str, server: PostgresServer) -> None:
    with server.admin() as admin:
        admin.execute(f"ALTER ROLE {role} NOLOGIN".encode())
    error = refused(role_url, ConfigError)
    assert "pg_hba.conf" in (error.hint or "")


def test_an_unknown_database_is_a_wrong_setting(role_url: str) -> None:
    error = refused(urlunsplit(urlsplit(role_url)._replace(path="/nowhere")), ConfigError)
    assert "create the database" in (error.hint or "")


def test_a_database_one_may_not_enter_is_a_wrong_setting(role_url: str, server: PostgresServer) -> None:
    name = urlsplit(role_url).path.removeprefix("/")
    with server.admin() as admin:
        admin.execute(f'REVOKE CONNECT ON DATABASE "{name}" FROM PUBLIC'.encode())
    error = refused(role_url, ConfigError)
    assert "role" in (error.hint or "")


@pytest.mark.parametrize("option", ["sslmode=bogus", "connect_timeout=bogus", "options=-c%20bogus%3D1", "port=bogus"])
def test_an_option_that_libpq_does_not_take_is_told(role_url: str, option: str) -> None:
    error = refused(f"{role_url}?{option}", ConfigError)
    assert "bogus" in error.message
    assert "option" in (error.hint or "")


def test_too_many_connections_are_worth_another_try(role_url: str, role: str, server: PostgresServer) -> None:
    with server.admin() as admin:
        admin.execute(f"ALTER ROLE {role} CONNECTION LIMIT 1".encode())
    ledger = open_ledger(role_url)
    with ledger.read() as session:
        session.row("SELECT 1")
        error = refused(role_url, LedgerBusyError)
        assert "too many connections" in error.message
        assert error.retry
    ledger.close()
    open_ledger(role_url).close()


def test_a_server_that_is_not_there_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for place in (f"127.0.0.1:{port}", "host.invalid"):
        with pytest.raises(LedgerUnavailableError) as caught, Ledger(f"postgresql://u:{CANARY}@{place}/db").read():
            pass
        assert code(caught.value) == ""
        assert caught.value.retry


def test_a_server_that_stops_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr(engine, "RETRY_SECONDS", 0.1)
    server = new_server()
    request.addfinalizer(server.stop)
    ledger = open_ledger(server.new_database())
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])

    def read_on() -> None:
        with ledger.read() as session:
            session.row("SELECT 1")
            server.stop()
            session.row("SELECT 1")

    with pytest.raises(LedgerUnavailableError) as caught:
        read_on()
    assert code(caught.value) in ("57P01", "57P02", "")
    with pytest.raises(LedgerUnavailableError):
        writer.commit([draft("t", add("a"))])
    ledger.close()


# -- a connection that is lost ----------------------------------------------------------------------------------------


def end(server: PostgresServer, pid: int) -> None:
    with server.admin() as admin:
        assert admin.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,)).fetchone() == (True,)


def test_a_session_that_the_server_ends_in_a_transaction_is_lost(role_url: str, server: PostgresServer) -> None:
    ledger = open_ledger(role_url)

    def write_on() -> None:
        with ledger.write() as session:
            session.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")
            end(server, session.rows("SELECT pg_backend_pid()")[0][0])
            session.change("INSERT INTO dl_lake VALUES ('b', NULL, 1)")

    with pytest.raises(LedgerUnavailableError) as caught:
        write_on()
    assert code(caught.value) in ("57P01", "")
    with ledger.read() as session:
        assert session.rows("SELECT * FROM dl_lake") == []
    ledger.close()


def test_a_commit_whose_session_ends_is_made_again(ledger: Ledger, server: PostgresServer) -> None:
    writer, reader = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger)
    writer.commit([creation("t")])
    ended: list[int] = []

    def end_once() -> None:
        if ended:
            return
        with server.admin() as admin:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND state = 'idle in transaction'"
            ended.extend(row[0] for row in admin.execute(query, (urlsplit(ledger.url).path[1:],)))
        end(server, ended[0])

    with arm("after_head_moved", end_once):
        outcome = writer.commit([draft("t", add("a"))])
    assert len(ended) == 1
    assert isinstance(outcome, tuple)
    assert (outcome[0].version, outcome[0].replayed) == (1, False)
    table = reader.table("t")
    assert reader.head(table).version == 1
    assert paths(reader.files(table, 1)) == ["a"]


def test_a_session_that_slept_too_long_in_a_transaction_is_lost(role_url: str, server: PostgresServer) -> None:
    ledger = open_ledger(f"{role_url}?options=-c%20idle_in_transaction_session_timeout%3D10")

    def sleep() -> None:
        with ledger.read() as session:
            (pid,) = session.rows("SELECT pg_backend_pid()")[0]
            # The server does not count from a statement that came together with the beginning.
            session.row("SELECT 1")
            with server.admin() as admin:
                while admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone():
                    pass
            session.row("SELECT 1")

    with pytest.raises(LedgerUnavailableError) as caught:
        sleep()
    assert code(caught.value) in ("25P03", "")
    ledger.close()


# -- other transactions -----------------------------------------------------------------------------------------------


def test_a_lock_that_is_held_too_long_is_told(ledger: Ledger, role_url: str) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t")])
    waiting = open_ledger(f"{role_url}?lock_timeout=1")
    with ledger.write() as session:
        session.row("SELECT * FROM dl_table_heads FOR UPDATE")
        with pytest.raises(LedgerBusyError) as caught:
            SqlTxnLogWriter(waiting).commit([draft("t", add("a"))])
        assert type(caught.value) is LedgerBusyError
        assert code(caught.value) == "55P03"
        assert "pg_stat_activity" in (caught.value.hint or "")
    assert SqlTxnLogWriter(waiting).commit([draft("t", add("a"))])
    waiting.close()


def test_of_two_that_wait_for_each_other_one_is_given_up(ledger: Ledger) -> None:
    with ledger.write() as session:
        for name in "ab":
            session.change("INSERT INTO dl_lake VALUES (?, NULL, 1)", (name,))
    both = threading.Barrier(2)

    def cross(first: str, second: str) -> DeltaSqlError | None:
        try:
            with ledger.write() as session:
                session.change("UPDATE dl_lake SET root = 'x' WHERE lake_id = ?", (first,))
                both.wait()
                session.change("UPDATE dl_lake SET root = 'x' WHERE lake_id = ?", (second,))
        except DeltaSqlError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(cross, "ab", "ba"))
    (error,) = [answer for answer in answers if answer is not None]
    assert isinstance(error, LedgerRaceError)
    assert code(error) == "40P01"


def test_two_that_make_the_same_row_are_a_race(ledger: Ledger) -> None:
    def write_twice() -> None:
        with ledger.write() as session:
            for _ in range(2):
                session.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")

    with pytest.raises(LedgerRaceError) as caught:
        write_twice()
    assert code(caught.value) == "23505"


def test_a_statement_that_is_stopped_is_worth_another_try(role_url: str) -> None:
    ledger = Ledger(f"{role_url}?options=-c%20statement_timeout%3D50")
    with pytest.raises(LedgerBusyError) as caught, ledger.read() as session:
        session.row("SELECT pg_sleep(60)")
    assert code(caught.value) == "57014"
    ledger.close()


# -- a database that is not as it should be ---------------------------------------------------------------------------


def test_a_database_that_only_reads_is_a_wrong_setting(ledger: Ledger, server: PostgresServer) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t")])
    ledger.close()
    name = urlsplit(ledger.url).path.removeprefix("/")
    with server.admin() as admin:
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
    for commit in (creation("u"), draft("t", add("a"))):
        with pytest.raises(ConfigError) as caught:
            SqlTxnLogWriter(ledger).commit([commit])
        assert code(caught.value) == "25006"
        assert "primary" in (caught.value.hint or "")


def test_what_a_user_may_not_do_is_a_wrong_setting(empty_url: str, role: str, role_url: str) -> None:
    # To make a ledger, one must be allowed to make tables.
    with pytest.raises(ConfigError) as caught:
        open_ledger(as_user(empty_url, role))
    assert code(caught.value) == "42501"
    ledger = open_ledger(role_url)
    with pytest.raises(ConfigError) as caught, ledger.write() as session:
        session.change("DELETE FROM dl_table_versions")
    assert code(caught.value) == "42501"
    assert caught.value.field == "ledger"
    ledger.close()


def test_a_table_that_is_missing_is_told(ledger: Ledger) -> None:
    with ledger.write() as session:
        session.change("DROP TABLE dl_tables")
    with pytest.raises(ConfigError, match="dl_tables") as caught:
        SqlTxnLogReader(ledger).tables()
    assert code(caught.value) == "42P01"


def test_a_value_too_long_for_an_index_is_refused(ledger: Ledger) -> None:
    # Made of what cannot be made shorter by packing.
    value = "".join(uuid4().hex for _ in range(1000))
    with pytest.raises(UnsupportedError) as caught, ledger.write() as session:
        session.change("INSERT INTO dl_tables (name, location, created_at) VALUES (?, 'x', 1)", (value,))
    assert code(caught.value) == "54000"


def test_a_database_that_cannot_spell_everything_is_told(server: PostgresServer) -> None:
    name = f"deltasql_test_{uuid4().hex}"
    with server.admin() as admin:
        options = "TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
        admin.execute(f"CREATE DATABASE {name} {options}".encode())
    url = urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))
    try:
        ledger = open_ledger(url)
        with pytest.raises(ConfigError) as caught:
            SqlTxnLogWriter(ledger).commit([creation("t", add("α"))])
        assert code(caught.value) == "22P05"
        assert "UTF8" in (caught.value.hint or "")
        ledger.close()
    finally:
        server.drop(url)


def test_misuse_of_the_driver_is_an_error_of_the_ledger(ledger: Ledger) -> None:
    with pytest.raises(LedgerError) as caught, ledger.write() as session:
        session.row("SELECT ?", (object(),))
    assert type(caught.value) is LedgerError
    assert code(caught.value) == ""
