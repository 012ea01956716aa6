"""Commits are heard of: by `watch` in another process, and by a mirror that would else sleep for an hour."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import deltasql
from deltasql.events import TableCommitted
from ledger_samples import add
from ledger_workers import SCHEMA, Job, append_blindly, commit_groups, notes, run, start
from postgres_server import PostgresServer

pytestmark = pytest.mark.e2e


def job(url: str, folder: Path, times: int, worker: int = 0) -> Job:
    return Job(url=url, worker=worker, times=times, notes=folder / f"{worker}.jsonl")


# ---------------------------------------------------------------- watch


@pytest.mark.parametrize(
    ("kind", "times"),
    [("postgresql", 200), ("sqlite", 200), ("duckdb", 20), pytest.param("duckdb", 200, marks=pytest.mark.slow)],
)
def test_every_commit_of_another_process_is_heard_in_order(url: str, tmp_path: Path, times: int) -> None:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        lake.create_table("t", SCHEMA)
        heard = lake.watch()
        process = start(append_alone, job(url, tmp_path, times))
        events = [next(heard) for _ in range(times)]
        process.join()
        assert process.exitcode == 0
    assert events == [TableCommitted(table="t", version=n, operation="WRITE") for n in range(1, times + 1)]


def append_alone(job: Job) -> None:
    """Runs in a process of its own."""
    with deltasql.connect(job.url, create=False) as lake:
        append_blindly(job, lake, lambda note: None)


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_commits_of_many_processes_to_many_tables_are_all_heard(url: str, tmp_path: Path) -> None:
    jobs = [job(url, tmp_path, 15, worker) for worker in range(4)]
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        for name in ("a", "b", "c"):
            lake.create_table(name, SCHEMA)
        heard = lake.watch(1.0)
        assert run(commit_groups, jobs) == [0] * 4
        events = list(heard)
    made = [note for found in notes(jobs).values() for note in found if note.operation.outcome == "committed"]
    for name in ("a", "b", "c"):
        versions = sorted(note.operation.version or 0 for note in made if note.table == name)
        assert [event.version for event in events if event.table == name] == versions
        assert versions == list(range(1, len(versions) + 1))


def test_watching_ends_when_it_has_been_quiet(url: str, tmp_path: Path) -> None:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        table = lake.create_table("t", SCHEMA)
        quiet = lake.watch(0.2)
        assert list(quiet) == []
        watched = lake.watch(0.2)
        # Made before the first look, but after the watch began; a table that is new is heard of from its beginning.
        table.commit([add("a")])
        lake.create_table("u", SCHEMA)
        found = [(event.table, event.version, event.operation) for event in watched]
    assert found == [("t", 1, "WRITE"), ("u", 0, "CREATE TABLE")]


def test_what_was_there_before_is_not_heard_of(url: str, tmp_path: Path) -> None:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        table = lake.create_table("t", SCHEMA)
        table.commit([add("a")])
        watched = lake.watch()
        table.commit([add("b")])
        assert next(watched) == TableCommitted(table="t", version=2, operation="WRITE")


# ---------------------------------------------------------------- the mirror


class Mirror:
    """`deltasql mirror run`, which without a wake looks again in an hour."""

    def __init__(self, url: str) -> None:
        words = ["mirror", "run", "--in-process", "--json", "--interval", "3600", "--look", "3600", "--ledger", url]
        command = [sys.executable, "-m", "deltasql.cli.main", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def next_published(self) -> tuple[str, int]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "VersionsPublished":
                return event["table"], event["last"]
        assert self.process.stderr is not None
        raise AssertionError(self.process.stderr.read())

    def end(self) -> tuple[int, str]:
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def mirror(url: str, tmp_path: Path) -> Iterator[Mirror]:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        lake.create_table("t", SCHEMA)
    mirror = Mirror(url)
    yield mirror
    mirror.process.kill()
    mirror.process.communicate()


def test_a_commit_wakes_the_mirror(url: str, mirror: Mirror) -> None:
    assert mirror.next_published() == ("t", 0)
    with deltasql.connect(url) as lake:
        table = lake.table("t")
        for version in range(1, 6):
            table.commit([add(str(version))])
            assert mirror.next_published() == ("t", version)
        assert {status.state for status in table.mirror_status()} == {"SUCCESS"}
        lake.create_table("u", SCHEMA)
        assert mirror.next_published() == ("u", 0)
    assert mirror.end() == (0, "")


def listeners(server: PostgresServer, url: str) -> list[int]:
    query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND query ILIKE 'LISTEN %%'"
    with server.admin() as admin:
        return [row[0] for row in admin.execute(query, (urlsplit(url).path[1:],)).fetchall()]


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_mirror_whose_listening_ends_listens_again(url: str, mirror: Mirror, postgres: PostgresServer) -> None:
    assert mirror.next_published() == ("t", 0)
    with deltasql.connect(url) as lake:
        table = lake.table("t")
        for version in range(1, 4):
            (listening,) = listeners(postgres, url)
            with postgres.admin() as admin:
                assert admin.execute("SELECT pg_terminate_backend(%s, 10000)", (listening,)).fetchone() == (True,)
            # Nobody listens now. It is published all the same, as soon as somebody does again.
            table.commit([add(str(version))])
            assert mirror.next_published() == ("t", version)
    assert mirror.end()[0] == 0
