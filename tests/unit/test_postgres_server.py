"""The PostgreSQL that tests run on: as durable as a real one, quick to copy, and gone when its tests are."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import postgres_server
from postgres_server import PostgresServer

pytestmark = pytest.mark.contract

# Starts a server, says its parts (server, keeper, folder), and waits to be killed.
OWNER = """
import sys
from postgres_server import server
running = server()
pid = (running._folder / "data" / "postmaster.pid").read_text().splitlines()[0]
print(pid, running._keeper.pid, running._folder, flush=True)
sys.stdin.read()
"""

own_server = pytest.mark.skipif(
    postgres_server.ENVIRONMENT in os.environ, reason="the server is somebody else's to start and stop"
)


def ended(handle: int) -> bool:
    """Whether a process ends; waits for it."""
    return bool(select.select([handle], [], [], 60)[0])


@own_server
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for other processes as only Linux can")
@pytest.mark.parametrize("victim", ["owner", "keeper"])
def test_nothing_outlives_a_process_killed_hard(victim: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(postgres_server.__file__).parent)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        postgres, keeper, folder = owner.stdout.readline().split()
        handles = [os.pidfd_open(int(postgres)), os.pidfd_open(int(keeper))]
        try:
            if victim == "keeper":
                os.kill(int(keeper), 9)
            owner.kill()
            assert all(ended(handle) for handle in handles)
        finally:
            for handle in handles:
                os.close(handle)
    # A keeper that was killed could not clear the folder away.
    assert Path(folder).exists() == (victim == "keeper")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_the_server_is_durable(setting: str, postgres: PostgresServer) -> None:
    with postgres.admin() as admin:
        assert admin.execute("SELECT current_setting(%s)", [setting]).fetchone() == ("on",)


def test_databases_are_copied_and_dropped(postgres: PostgresServer) -> None:
    template = postgres.new_database()
    with postgres.admin(template) as admin:
        admin.execute("CREATE TABLE t AS SELECT 7 AS n")
    copy = postgres.new_database(template)
    postgres.drop(template)
    # Somebody is connected to this one.
    with postgres.admin(copy) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (7,)
        postgres.drop(copy)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(template)


def test_the_server_listens_on_tcp(postgres: PostgresServer) -> None:
    host, port = postgres.tcp_address
    with postgres.admin() as admin:
        assert (admin.info.host, admin.info.port) == (host, port)


@own_server
def test_the_server_listens_on_a_socket_and_asks_for_the_password(postgres: PostgresServer) -> None:
    url = postgres.socket_url(postgres.url)
    with psycopg.connect(url) as connection:
        assert connection.info.host.startswith("/")
        password = connection.info.password
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url.replace(password, "wrong"))


@own_server
def test_a_server_given_by_the_environment_is_used_and_left_as_it_was(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(postgres_server.ENVIRONMENT, postgres.url)
    given = postgres_server.server()
    database = given.new_database()
    psycopg.connect(database).close()
    given.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(database)
    postgres.admin().close()
