"""Several writers on one table in PostgreSQL: deltasql beside the least SQL that records the same, and delta-rs.

Each writer is a process of its own. All connect, then all go; the time is from there to the last one's end.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

import deltasql
from bench.files import SCHEMA, add_action, add_file
from bench.measure import alternate, keep, table
from bench.postgres import Databases

WRITERS = 8

# Those that take many times as long make fewer commits.
SLOW = 10

_START_SECONDS = 300

# Connects as a writer of the given number to a place and returns how it commits: all its commits, then how many failed.
Writer = Callable[[str, int, int], Callable[[], int]]


class Run(NamedTuple):
    seconds: float
    failed: int
    commits: int


def deltasql_writer(url: str, writer: int, commits: int) -> Callable[[], int]:
    lake = deltasql.connect(url, create=False)
    target = lake.table("t")
    files = [add_file(writer, number) for number in range(commits)]

    def commit_all() -> int:
        failed = 0
        for file in files:
            try:
                target.commit([file])
            except deltasql.DeltaSqlError:
                failed += 1
        lake.close()
        return failed

    return commit_all


def bare_sql_writer(url: str, writer: int, commits: int) -> Callable[[], int]:
    """The rows are those of deltasql's own first commit, under other numbers, so nothing is encoded or hashed."""
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    inserts = [_insert(connection, name) for name in ("dl_table_versions", "dl_add_files", "dl_mirror_status")]
    own = [(f"{uuid4()}", add_file(writer, number).path, uuid4().int >> 65) for number in range(commits)]

    def commit_all() -> int:
        for token, path, key in own:
            # Two waits: for the head, which says what to write, and for the end.
            with connection.pipeline():
                connection.execute("BEGIN")
                row = connection.execute("SELECT version, table_id FROM dl_table_heads FOR UPDATE").fetchone()
                assert row is not None
                version, now = row[0] + 1, time.time_ns() // 1_000_000
                changes = {"version": version, "timestamp": now, "created_at": now, "token": token}
                for statement, values in inserts:
                    changed = values | changes | {"path": path, "file_key": key}
                    connection.execute(statement, changed)
                connection.execute(
                    "UPDATE dl_table_heads SET version = %s, timestamp = %s WHERE table_id = %s",
                    (version, now, row[1]),
                )
                connection.execute("COMMIT")
        connection.close()
        return 0

    return commit_all


def _insert(connection: psycopg.Connection[Any], name: str) -> tuple[bytes, dict[str, Any]]:
    """The statement that inserts into a table, and the values it has at version 1."""
    cursor = connection.execute(f"SELECT * FROM {name} WHERE version = 1".encode())
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    columns = [column.name for column in cursor.description]
    places = ", ".join(f"%({column})s" for column in columns)
    statement = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({places})"
    return statement.encode(), dict(zip(columns, row, strict=True))


def delta_rs_writer(path: str, writer: int, commits: int) -> Callable[[], int]:
    target, schema = DeltaTable(path), Schema.from_arrow(SCHEMA)
    actions = [add_action(writer, number) for number in range(commits)]

    def commit_all() -> int:
        failed = 0
        for action in actions:
            try:
                target.create_write_transaction([action], "append", schema, [])
            except DeltaError:
                failed += 1
            target.update_incremental()
        return failed

    return commit_all


# ---------------------------------------------------------------- going together


class Crew:
    """Processes that write at the same time. They stay from round to round, as a service's would."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        # All of the writers, and the one who takes the time.
        self._barriers = {writers: context.Barrier(writers + 1) for writers in (1, WRITERS)}
        self._pool = ProcessPoolExecutor(WRITERS, mp_context=context, initializer=_share, initargs=(self._barriers,))

    def close(self) -> None:
        self._pool.shutdown()

    def go(self, writer: Writer, place: str, writers: int, commits: int) -> Run:
        """From the go to the last one's end."""
        # Each holds its process until all have come, so no process gets two.
        results = [self._pool.submit(_work, writer, place, writers, number, commits) for number in range(writers)]
        self._barriers[writers].wait(_START_SECONDS)
        started = time.perf_counter()
        failed = sum(result.result() for result in results)
        return Run(time.perf_counter() - started, failed, writers * commits)


_start: dict[int, Barrier] = {}


def _share(barriers: dict[int, Barrier]) -> None:
    _start.update(barriers)


def _work(prepare: Writer, place: str, writers: int, number: int, commits: int) -> int:
    try:
        commit_all = prepare(place, number, commits)
    except BaseException:
        _start[writers].abort()
        raise
    _start[writers].wait(_START_SECONDS)
    return commit_all()


# ---------------------------------------------------------------- peers


def on_postgres(crew: Crew, server: Databases, writer: Writer, writers: int, commits: int) -> Run:
    """On a new table with one commit, made by deltasql: the bare SQL is at home in the same tables and indexes."""
    with server.fresh() as url, tempfile.TemporaryDirectory(prefix="deltasql-bench-") as home:
        with deltasql.connect(url, root=home) as lake:
            lake.create_table("t", SCHEMA).commit([add_file(writers, 0)])
        done = crew.go(writer, url, writers, commits)
        with psycopg.connect(url) as connection:
            found = connection.execute(
                "SELECT (SELECT version FROM dl_table_heads), (SELECT COUNT(*) FROM dl_table_versions), "
                "(SELECT COUNT(*) FROM dl_add_files), (SELECT COUNT(DISTINCT path) FROM dl_add_files), "
                "(SELECT COUNT(*) FROM dl_mirror_status)"
            ).fetchone()
        committed = done.commits - done.failed
        # Versions 0 and 1 were there before; version 0 has no file.
        assert found == (committed + 1, committed + 2, committed + 1, committed + 1, committed + 2), found
    return done


def on_delta_rs(crew: Crew, writers: int, commits: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="deltasql-bench-") as home:
        DeltaTable.create(home, schema=Schema.from_arrow(SCHEMA))
        done = crew.go(delta_rs_writer, home, writers, commits)
        found = DeltaTable(home)
        assert found.version() == len(found.file_uris()) == done.commits - done.failed
    return done


def run(commits: int, rounds: int, server: Databases) -> None:
    """Several writers, `commits` each."""
    fewer = max(1, commits // SLOW)
    crew = Crew()
    peers: dict[str, Callable[[int], Run]] = {
        "deltasql": lambda share: on_postgres(crew, server, deltasql_writer, WRITERS, max(1, commits // share)),
        "bare SQL": lambda share: on_postgres(crew, server, bare_sql_writer, WRITERS, max(1, commits // share)),
        "bare SQL, 1 writer": lambda share: on_postgres(crew, server, bare_sql_writer, 1, max(1, commits // share)),
        "delta-rs": lambda share: on_delta_rs(crew, WRITERS, max(1, fewer // share)),
    }
    runs: dict[str, list[Run]] = {name: [] for name in peers}

    def measured(name: str) -> Callable[[int], float]:
        def measure(number: int) -> float:
            done = peers[name](1 if number else 10)
            if number:
                runs[name].append(done)
            return done.seconds

        return measure

    print(f"\n{WRITERS} writers on one table, {commits:,} commits each, {rounds} rounds")
    try:
        seconds = alternate({name: measured(name) for name in peers}, rounds)
    finally:
        crew.close()
    rates = {name: [(one.commits - one.failed) / one.seconds for one in many] for name, many in runs.items()}
    failed = {name: sum(one.failed for one in many) for name, many in runs.items()}
    median = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {
        "deltasql / bare SQL": median["deltasql"] / median["bare SQL"],
        "deltasql / delta-rs": median["deltasql"] / median["delta-rs"],
        "bare SQL / bare SQL, 1 writer": median["bare SQL"] / median["bare SQL, 1 writer"],
    }
    table(f"{WRITERS} writers on one table (median of {rounds})", rates, ratios, unit="commits/s", digits=0)
    print(f"  failed commits: {', '.join(f'{name} {number}' for name, number in failed.items())}")
    what = f"{WRITERS} processes that commit to one table at once, one file with statistics and no data in each commit"
    kept = keep(
        "commits_concurrent",
        what,
        seconds,
        ratios,
        commits={name: many[-1].commits for name, many in runs.items()},
        commits_per_second={name: round(value, 1) for name, value in median.items()},
        failed_commits=failed,
    )
    print(f"kept in {kept.name}")
