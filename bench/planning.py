"""Opening a table, listing its files, planning a narrow scan: the ledger beside delta-rs on the mirrored log."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

import deltasql
from bench.measure import alternate, keep, table
from deltasql.client import Table
from deltasql.protocol.actions import AddFile

COMMITS, FILES, ROUNDS = 10_000, 100_000, 5
DAYS = [str(date(2024, 1, 1) + timedelta(days=number)) for number in range(365)]
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
ROWS = 1_000


def file_of(number: int) -> AddFile:
    """One file of a day; ids go up from file to file."""
    day, low = DAYS[number % len(DAYS)], number * ROWS
    bounds = f'"minValues":{{"id":{low},"amount":0.5}},"maxValues":{{"id":{low + ROWS - 1},"amount":99.5}}'
    return AddFile(
        path=f"day={day}/part-{number:08d}.parquet",
        partition_values={"day": day},
        size=10_000,
        modification_time=1_700_000_000_000,
        data_change=True,
        stats=f'{{"numRecords":{ROWS},{bounds},"nullCount":{{"id":0,"amount":0}}}}',
    )


def fill(lake: deltasql.Lake, commits: int, files: int) -> Table:
    # One checkpoint, at the end: what delta-rs begins with.
    properties = {"delta.checkpointInterval": str(10 * commits)}
    made = lake.create_table("t", SCHEMA, partition_by=["day"], properties=properties)
    each = files // commits
    for number in range(commits):
        made.commit([file_of(number * each + place) for place in range(each)])
    assert lake.mirror().ok
    made.checkpoint()
    return made


def run(commits: int, files: int, rounds: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="deltasql-bench-"))
    try:
        ledger = f"sqlite:///{home / 'lake.db'}"
        with deltasql.connect(ledger, root=str(home / "warehouse")) as lake:
            filled = fill(lake, commits, files)
            path = filled.location.removeprefix("file://")
        wanted = files // 2
        day, low = DAYS[wanted % len(DAYS)], wanted * ROWS
        condition = f"day = '{day}' AND id BETWEEN {low} AND {low + ROWS - 1}"

        def ours_open(_: int) -> None:
            with deltasql.connect(ledger) as lake:
                assert lake.table("t").snapshot().version == commits

        connected = deltasql.connect(ledger)

        def ours_connected(_: int) -> None:
            assert connected.table("t").snapshot().version == commits

        def theirs_open(_: int) -> None:
            assert DeltaTable(path).version() == commits

        def ours_list(_: int) -> None:
            with deltasql.connect(ledger) as lake:
                assert lake.table("t").snapshot().files().num_rows == files

        def theirs_list(_: int) -> None:
            assert DeltaTable(path).get_add_actions(flatten=True).num_rows == files

        def ours_plan(_: int) -> None:
            with deltasql.connect(ledger) as lake:
                found = lake.table("t").snapshot().files(condition).column("path").to_pylist()
            assert found == [file_of(wanted).path]

        def theirs_plan(_: int) -> None:
            opened = DeltaTable(path)
            found = opened.file_uris(partition_filters=[("day", "=", day)])
            assert any(uri.endswith(file_of(wanted).path.rpartition("/")[2]) for uri in found)

        peers = {
            "open deltasql": ours_connected,
            "connect and open": ours_open,
            "open delta-rs": theirs_open,
            "list deltasql": ours_list,
            "list delta-rs": theirs_list,
            "plan deltasql": ours_plan,
            "plan delta-rs": theirs_plan,
        }
        seconds = alternate(peers, rounds)
        median = {peer: statistics.median(times) for peer, times in seconds.items()}
        verbs = ("open", "list", "plan")
        ratios = {
            f"{verb}: delta-rs / deltasql": median[f"{verb} delta-rs"] / median[f"{verb} deltasql"] for verb in verbs
        }
        table(f"A table of {commits:,} commits and {files:,} files (median of {rounds})", seconds, ratios)
        ratios["connect and open: delta-rs / deltasql"] = median["open delta-rs"] / median["connect and open"]
        connected.close()
        what = (
            "open: the head by a client that is connected, beside delta-rs from the checkpoint; list and plan cold, "
            "with a new connection: all files as Arrow, or the one file of a day and a range of ids (delta-rs: the "
            "files of that day, it has no range filter for file lists)"
        )
        print(f"kept in {keep('planning', what, seconds, ratios, commits=commits, files=files).name}")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    run(given.commits, given.files, given.rounds)


if __name__ == "__main__":
    main()
