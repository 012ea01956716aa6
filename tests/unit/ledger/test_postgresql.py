"""What only PostgreSQL has: settings that lose commits, a bounded number of connections, farewells, encryption."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltasql.errors import ConfigError, DurabilityWarning, LedgerBusyError
from deltasql.ledger.dialects.postgresql import PostgresDialect
from deltasql.ledger.engine import SCHEMA_VERSION, Ledger, open_ledger
from deltasql.ledger.migrate import migrate
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import add, creation, draft, paths
from postgres_server import ENVIRONMENT, PostgresServer
from postgres_server import server as new_server
from postgres_tls import TlsFront, certificate

pytestmark = pytest.mark.unit


@pytest.fixture
def kind() -> str:
    return "postgresql"


def database(url: str) -> str:
    return url.rpartition("/")[2]


# -- durability -------------------------------------------------------------------------------------------------------


@pytest.fixture
def unsafe_url(url: str, server: PostgresServer) -> str:
    """A ledger in a database that acknowledges commits before they are safe."""
    with server.admin() as admin:
        admin.execute(f'ALTER DATABASE "{database(url)}" SET synchronous_commit = off'.encode())
    return url


def test_a_database_that_may_lose_commits_is_refused(unsafe_url: str) -> None:
    with pytest.raises(ConfigError, match="synchronous_commit=off") as caught:
        open_ledger(unsafe_url)
    assert "durability=warn" in (caught.value.hint or "")
    assert caught.value.field == "ledger"


def test_who_accepts_the_loss_is_warned_of_it(unsafe_url: str) -> None:
    with pytest.warns(DurabilityWarning, match="synchronous_commit=off"):
        ledger = open_ledger(f"{unsafe_url}?durability=warn")
    assert SqlTxnLogWriter(ledger).commit([creation("t")])
    ledger.close()


def test_a_safe_database_is_not_warned_of(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_ledger(f"{url}?durability=warn").close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server whose settings may be changed: nobody else uses it."""
    if ENVIRONMENT in os.environ:
        pytest.skip(f"the server of {ENVIRONMENT} may have other users, whose settings are not ours to change")
    running = new_server()
    yield running
    running.stop()


def test_a_server_whose_pages_may_tear_is_refused(own_server: PostgresServer) -> None:
    url = own_server.new_database()
    open_ledger(url).close()
    with own_server.admin() as admin:
        # The one of these settings that does not stand on the command line of the tests' server.
        admin.execute("ALTER SYSTEM SET full_page_writes = off")
        admin.execute("SELECT pg_reload_conf()")
    # The server gets to it when it gets to it; each connection shows what holds for the next ones.
    setting = None
    while setting != ("off",):
        with own_server.admin() as admin:
            setting = admin.execute("SHOW full_page_writes").fetchone()
    with pytest.raises(ConfigError, match="full_page_writes=off"):
        open_ledger(url)
    with pytest.warns(DurabilityWarning, match="full_page_writes=off"):
        open_ledger(f"{url}?durability=warn").close()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"fsync": "off"}, "fsync=off"),
        ({"fsync": "off", "synchronous_commit": "off"}, "fsync=off and synchronous_commit=off"),
        ({"full_page_writes": "off"}, "full_page_writes=off"),
    ],
)
def test_every_setting_that_loses_commits_is_named(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], named: str
) -> None:
    safe = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with ledger.read() as session:
        assert dict(session.rows("SELECT name, setting FROM pg_settings WHERE name = ANY(?)", (list(safe),))) == safe
        monkeypatch.setattr(session, "rows", lambda *_: list((safe | settings).items()))
        with pytest.raises(ConfigError, match=f"has {named}:"):
            ledger.dialect.check(session)


@pytest.mark.parametrize("choice", ["on", "local", "remote_write", "remote_apply"])
def test_a_commit_that_waits_for_more_is_safe_too(url: str, server: PostgresServer, choice: str) -> None:
    with server.admin() as admin:
        admin.execute(f'ALTER DATABASE "{database(url)}" SET synchronous_commit = {choice}'.encode())
    open_ledger(url).close()


def test_a_failover_that_may_lose_commits_is_warned_of(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with ledger.read() as session:
        monkeypatch.setattr(session, "row", lambda *_: (2,))
        with pytest.warns(DurabilityWarning, match="2 replicas"):
            ledger.dialect.check(session)


# -- connections ------------------------------------------------------------------------------------------------------


def test_a_thread_that_finds_all_connections_in_use_is_told(url: str) -> None:
    ledger = open_ledger(f"{url}?pool_size=2&pool_timeout=1")
    with ledger.read(), ledger.read():
        with pytest.raises(LedgerBusyError, match="all 2 connections") as caught, ledger.read():
            pass
        assert "pool_size" in (caught.value.hint or "")
    with ledger.read(), ledger.read():
        pass
    ledger.close()


def test_a_thread_waits_for_a_connection_to_be_given_back(url: str) -> None:
    ledger = open_ledger(f"{url}?pool_size=1&pool_timeout=60")
    asked = threading.Event()

    def wait() -> object:
        asked.set()
        with ledger.read() as session:
            return session.row("SELECT 1")

    with ThreadPoolExecutor(1) as pool:
        with ledger.read():
            answer = pool.submit(wait)
            asked.wait()
        assert answer.result() == (1,)
    ledger.close()


def test_no_more_connections_are_opened_than_allowed(url: str, server: PostgresServer) -> None:
    ledger = open_ledger(f"{url}?pool_size=3")
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: writer.commit([draft("t", add(str(n)), read_version=0)]), range(40)))
        with server.admin() as admin:
            open_now = admin.execute(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = %s", (database(url),)
            ).fetchone()
    assert open_now is not None
    assert 1 <= open_now[0] <= 3
    assert len(ledger._idle) == open_now[0]
    ledger.close()


def test_a_failed_connection_does_not_use_up_a_place(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(f"{url}?pool_size=1&pool_timeout=1")
    ledger.close()

    def fail() -> None:
        raise ConfigError("no")

    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(ledger.dialect, "connect", fail)
            with pytest.raises(ConfigError, match="no"), ledger.read():
                pass
    with ledger.read() as session:
        assert session.row("SELECT 1") == (1,)
    ledger.close()


def end_sessions(server: PostgresServer, url: str) -> int:
    """Have the server end every session in a database, and wait until they are gone."""
    with server.admin() as admin:
        ended = admin.execute(
            "SELECT COUNT(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE datname = %s", (database(url),)
        ).fetchone()
    assert ended is not None
    return ended[0]


def test_an_idle_connection_that_the_server_ended_does_not_reach_the_caller(
    ledger: Ledger, server: PostgresServer
) -> None:
    with ledger.read(), ledger.read():
        pass
    assert end_sessions(server, ledger.url) == 2
    with ledger.write() as session:
        session.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")
    assert len(ledger._idle) == 1
    with ledger.read() as session:
        assert session.rows("SELECT lake_id FROM dl_lake") == [("a",)]


def test_a_session_is_known_by_its_name_and_waits_for_locks_as_told(url: str) -> None:
    ledger = open_ledger(f"{url}?lock_timeout=7")
    with ledger.read() as session:
        assert session.row("SHOW application_name") == ("deltasql",)
        assert session.row("SHOW lock_timeout") == ("7s",)
    ledger.close()


def test_a_reader_cannot_write_and_a_writer_sees_what_others_commit(ledger: Ledger) -> None:
    with ledger.read() as session:
        assert session.row("SHOW transaction_isolation") == ("repeatable read",)
        assert session.row("SHOW transaction_read_only") == ("on",)
    with ledger.write() as session:
        assert session.row("SHOW transaction_isolation") == ("read committed",)
        assert session.row("SELECT COUNT(*) FROM dl_lake") == (0,)
        with ledger.write() as other:
            other.change("INSERT INTO dl_lake VALUES ('a', NULL, 1)")
        assert session.row("SELECT COUNT(*) FROM dl_lake") == (1,)


def test_a_ledger_may_live_in_a_schema_of_its_own(empty_url: str, server: PostgresServer) -> None:
    with server.admin(empty_url) as admin:
        admin.execute("CREATE SCHEMA lake")
    ledger = open_ledger(f"{empty_url}?options=-c%20search_path%3Dlake")
    SqlTxnLogWriter(ledger).commit([creation("t", add("a"))])
    reader = SqlTxnLogReader(ledger)
    assert paths(reader.files(reader.table("t"), 0)) == ["a"]
    ledger.close()
    with server.admin(empty_url) as admin:
        found = admin.execute("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'dl%'").fetchall()
    assert found == [("lake",)]


def test_a_migration_waits_for_whoever_changes_the_lake(empty_url: str) -> None:
    other, impatient = Ledger(empty_url), Ledger(f"{empty_url}?lock_timeout=1")
    with other.write() as session:
        session.lock_lake()
        with pytest.raises(LedgerBusyError):
            migrate(impatient)
    assert migrate(impatient) == SCHEMA_VERSION
    impatient.close()
    other.close()


# -- encryption -------------------------------------------------------------------------------------------------------


def test_a_server_without_encryption_is_refused_where_it_is_required(url: str) -> None:
    with pytest.raises(ConfigError, match="SSL was required") as caught:
        open_ledger(f"{url}?sslmode=require")
    assert "sslmode" in (caught.value.hint or "")


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, Path]:
    """That of the server, and that of somebody else."""
    return certificate(tmp_path, "server", "ledger.test"), certificate(tmp_path, "other", "ledger.test")


def test_an_encrypted_connection_carries_a_ledger(
    url: str, server: PostgresServer, certificates: tuple[Path, Path]
) -> None:
    with TlsFront(server.tcp_address, certificates[0]) as front:
        place = front.url(url, "ledger.test")
        for mode in ("sslmode=require", f"sslmode=verify-full&sslrootcert={certificates[0]}"):
            ledger = open_ledger(f"{place}&{mode}&pool_size=1")
            with ledger.read() as session:
                assert session._connection.pgconn.ssl_in_use
            ledger.close()


@pytest.mark.parametrize(
    ("host", "trusted"), [("ledger.test", 1), ("other.test", 0)], ids=["of another authority", "for another host"]
)
def test_a_certificate_that_proves_nothing_is_refused(
    url: str, server: PostgresServer, certificates: tuple[Path, Path], host: str, trusted: int
) -> None:
    with TlsFront(server.tcp_address, certificates[0]) as front:
        place = front.url(url, host)
        with pytest.raises(ConfigError, match="certificate") as caught:
            open_ledger(f"{place}&sslmode=verify-full&sslrootcert={certificates[trusted]}")
    assert "sslrootcert" in (caught.value.hint or "")
    assert isinstance(PostgresDialect(url)._parameters["password"], str)
    assert PostgresDialect(url)._parameters["password"] not in str(caught.value)
