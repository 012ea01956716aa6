"""Commits that carry no data: deltasql beside delta-rs and DuckLake, first one writer, then several on one table.

A commit is one file with its statistics, described but not written. Each peer does what its writers do who go on
after a commit. deltasql and DuckLake have a commit on disk before they say so; delta-rs leaves that to the system.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import duckdb
import duckdb_extension_ducklake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

import deltasql
from bench import commits_concurrent
from bench.files import SCHEMA, add_action, add_file
from bench.measure import alternate, keep, table
from bench.postgres import Databases, databases

COMMITS = 1_000
ROUNDS = 5

# Those that take many times as long make fewer commits.
SLOW = 5

# Makes this many commits to a new table in a folder, sees that they are there, and returns the seconds they took.
Peer = Callable[[Path, int], float]


def on_sqlite(home: Path, commits: int) -> float:
    return _deltasql(f"sqlite:///{home / 'lake.db'}", home, commits)


def on_duckdb(home: Path, commits: int) -> float:
    return _deltasql(f"duckdb:///{home / 'lake.duckdb'}", home, commits)


def on_postgres(server: Databases) -> Peer:
    def run(home: Path, commits: int) -> float:
        with server.fresh() as url:
            return _deltasql(url, home, commits)

    return run


def _deltasql(ledger: str, home: Path, commits: int) -> float:
    with deltasql.connect(ledger, root=str(home / "warehouse")) as lake:
        target = lake.create_table("t", SCHEMA)
        files = [add_file(0, number) for number in range(commits)]
        started = time.perf_counter()
        for file in files:
            target.commit([file])
        taken = time.perf_counter() - started
        assert target.version == commits
        assert target.snapshot().files().num_rows == commits
    return taken


def delta_rs(home: Path, commits: int) -> float:
    """One `DeltaTable`, brought up to date after each commit."""
    return _delta_rs(home, commits, afresh=False)


def delta_rs_afresh(home: Path, commits: int) -> float:
    """A new `DeltaTable` for each commit."""
    return _delta_rs(home, commits, afresh=True)


def _delta_rs(home: Path, commits: int, *, afresh: bool) -> float:
    path, schema = str(home / "delta"), Schema.from_arrow(SCHEMA)
    target = DeltaTable.create(path, schema=schema)
    actions = [add_action(0, number) for number in range(commits)]
    started = time.perf_counter()
    for action in actions:
        if afresh:
            target = DeltaTable(path)
        target.create_write_transaction([action], "append", schema, [])
        if not afresh:
            target.update_incremental()
    taken = time.perf_counter() - started
    found = DeltaTable(path)
    assert found.version() == commits
    assert len(found.file_uris()) == commits
    return taken


def ducklake(home: Path, commits: int) -> float:
    """Catalog in a DuckDB file. It takes statistics out of files, so there are some: one of one row by many names."""
    connection = duckdb.connect()
    package = Path(duckdb_extension_ducklake.__file__).parent
    (extension,) = package.rglob(f"v{duckdb.__version__}/**/ducklake.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"ATTACH 'ducklake:{home / 'lake.ducklake'}' AS lake (DATA_PATH '{home / 'data'}')")
    connection.execute("CREATE TABLE lake.t (id BIGINT, amount DOUBLE, name VARCHAR, day DATE)")
    one = home / "one.parquet"
    pq.write_table(
        pa.table({"id": [1], "amount": [0.5], "name": ["customer"], "day": [date(2026, 1, 1)]}, schema=SCHEMA), one
    )
    paths = [home / add_file(0, number).path for number in range(commits)]
    for path in paths:
        path.hardlink_to(one)
    before = _ducklake_version(connection)
    started = time.perf_counter()
    for path in paths:
        connection.execute("CALL ducklake_add_data_files('lake', 't', ?)", [str(path)])
    taken = time.perf_counter() - started
    assert _ducklake_version(connection) == before + commits
    assert connection.execute("SELECT COUNT(*) FROM lake.t").fetchall() == [(commits,)]
    connection.close()
    return taken


def _ducklake_version(connection: duckdb.DuckDBPyConnection) -> int:
    ((version,),) = connection.execute("FROM lake.current_snapshot()").fetchall()
    return version


def run(commits: int, rounds: int, server: Databases) -> None:
    """One writer."""
    fewer = max(1, commits // SLOW)
    peers: dict[str, tuple[Peer, int]] = {
        "deltasql SQLite": (on_sqlite, commits),
        "deltasql PostgreSQL": (on_postgres(server), commits),
        "deltasql DuckDB": (on_duckdb, fewer),
        "delta-rs": (delta_rs, commits),
        "delta-rs, opened afresh": (delta_rs_afresh, commits),
        "DuckLake": (ducklake, fewer),
    }

    def measured(peer: Peer, number_of_commits: int) -> Callable[[int], float]:
        def measure(number: int) -> float:
            home = Path(tempfile.mkdtemp(prefix="deltasql-bench-"))
            try:
                return peer(home, number_of_commits if number else max(1, number_of_commits // 10))
            finally:
                shutil.rmtree(home, ignore_errors=True)

        return measure

    print(f"{commits:,} commits by one writer, {rounds} rounds")
    seconds = alternate({name: measured(*peer) for name, peer in peers.items()}, rounds)
    each = {name: [1_000 * taken / peers[name][1] for taken in times] for name, times in seconds.items()}
    median = {name: statistics.median(times) for name, times in each.items()}
    ratios = {
        f"{peer} / {ours}": median[peer] / median[ours]
        for ours in ("deltasql SQLite", "deltasql PostgreSQL", "deltasql DuckDB")
        for peer in ("delta-rs", "delta-rs, opened afresh", "DuckLake")
    }
    table(f"A commit of one file, one writer (median of {rounds})", each, ratios, unit="ms")
    what = "commits of one file with statistics and no data, one after the other, each round on a new table"
    kept = keep(
        "commits",
        what,
        seconds,
        ratios,
        commits={name: number for name, (_, number) in peers.items()},
        milliseconds_per_commit={name: round(value, 3) for name, value in median.items()},
        commits_per_second={name: round(1_000 / value, 1) for name, value in median.items()},
    )
    print(f"kept in {kept.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS, help="by one writer; each of several makes half")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with databases() as server:
        run(given.commits, given.rounds, server)
        commits_concurrent.run(max(1, given.commits // 2), given.rounds, server)


if __name__ == "__main__":
    main()
