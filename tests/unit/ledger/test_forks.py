"""A process that forks: its child has connections of its own, and loses nothing when the parent closes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from deltasql.ledger.engine import Ledger

pytestmark = pytest.mark.unit


FORK = """
import os, sys
from deltasql.ledger.engine import open_ledger

def note(text):
    with ledger.write() as session:
        session.change("INSERT INTO dl_lake VALUES (?, NULL, 1)", (text,))

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
    with ledger.read() as session:
        notes = sorted(row[0] for row in session.rows("SELECT lake_id FROM dl_lake"))
    assert notes == ["child, first", "child, second", "parent, after", "parent, before"]


WITH_A_THREAD = """
import os, sys, threading
from deltasql.ledger.engine import open_ledger

ledger = open_ledger(sys.argv[1])
inside, leave = threading.Event(), threading.Event()

def stay():
    with ledger.{mode}() as session:
        session.rows("SELECT * FROM dl_lake")
        inside.set()
        leave.wait()

thread = threading.Thread(target=stay)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    # The thread and what it holds are not here.
    with ledger.read() as session:
        os._exit(len(session.rows("SELECT * FROM dl_lake")))
code = os.waitpid(child, 0)[1]
leave.set()
thread.join()
print(code)
"""


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_child_waits_for_nothing_that_a_thread_of_its_parent_holds(kind: str, url: str, mode: str) -> None:
    if kind == "duckdb":
        pytest.skip("DuckDB forbids a fork while the file is open; the parent's hold on it would be the child's too")
    options = "?pool_size=1&pool_timeout=1" if kind == "postgresql" else ""
    script = WITH_A_THREAD.format(mode=mode)
    done = subprocess.run([sys.executable, "-c", script, url + options], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


def test_a_connection_of_another_process_is_neither_used_nor_closed(
    kind: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "duckdb":
        pytest.skip("a DuckDB ledger keeps no connection open, so a child finds none")
    with ledger.read(), ledger.read():
        pass
    inherited: list[Any] = [session._connection for session in ledger._idle]
    assert len(inherited) == 2
    # As it is in a child, where a thread of the parent gave a connection back in the moment of the fork.
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with ledger.read() as session:
        used = session._connection
    assert used not in inherited
    ledger.close()
    for connection in inherited:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    monkeypatch.undo()
    for connection in inherited:
        connection.close()
