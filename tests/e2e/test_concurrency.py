"""Many processes commit at once: every version has one winner, and every answer that was given holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

import deltasql
from deltasql.client import Lake
from deltasql.ledger.contracts import RecordedCommit
from deltasql.protocol.actions import CommitInfo
from history import Operation, violations
from ledger_workers import (
    SCHEMA,
    Job,
    Note,
    append_blindly,
    commit_groups,
    creation,
    history,
    in_order,
    notes,
    run,
    write_rows,
)
from postgres_server import PostgresServer

pytestmark = pytest.mark.e2e


def jobs(url: str, folder: Path, workers: int, times: int, seed: int = 0) -> list[Job]:
    return [Job(url=url, worker=n, times=times, notes=folder / f"{n}.jsonl", seed=seed) for n in range(workers)]


def recorded(lake: Lake, name: str) -> list[RecordedCommit]:
    table = lake.table(name)
    return list(lake._services.reader.commits(table._entry, 0, table.version))


def judge(created: Operation, noted: dict[str, list[Note]], name: str, commits: Sequence[RecordedCommit]) -> None:
    assert violations({"creator": [created], **history(noted, name)}, commits) == []


# ---------------------------------------------------------------- blind appends


def check_appends(url: str, folder: Path, workers: int, times: int) -> None:
    with deltasql.connect(url, root=str(folder / "warehouse")) as lake:
        created = creation(lake, "t")
        work = jobs(url, folder, workers, times)
        assert run(append_blindly, work) == [0] * workers
        noted = notes(work)
        commits = recorded(lake, "t")
        statuses = [status.version for status in lake.table("t").mirror_status()]
    total = workers * times
    assert [commit.version for commit in commits] == list(range(total + 1))
    assert statuses == list(range(total + 1))
    told = [note.operation for found in noted.values() for note in found]
    assert sorted(operation.version or 0 for operation in told) == list(range(1, total + 1))
    assert len({path for operation in told for path in operation.added}) == total
    judge(created, noted, "t", commits)


@pytest.mark.parametrize(
    ("kind", "workers", "times"),
    [
        ("postgresql", 16, 40),
        ("sqlite", 8, 50),
        ("duckdb", 3, 10),
        pytest.param("postgresql", 16, 500, marks=pytest.mark.slow),
        pytest.param("sqlite", 16, 500, marks=pytest.mark.slow),
        pytest.param("duckdb", 8, 50, marks=pytest.mark.slow),
    ],
)
def test_every_version_has_one_winner(url: str, tmp_path: Path, workers: int, times: int) -> None:
    check_appends(url, tmp_path, workers, times)


# ---------------------------------------------------------------- conflicts


@pytest.mark.parametrize(
    ("kind", "workers", "times"),
    [
        ("postgresql", 4, 15),
        ("sqlite", 4, 15),
        ("duckdb", 3, 8),
        pytest.param("postgresql", 8, 150, marks=pytest.mark.slow),
        pytest.param("sqlite", 8, 150, marks=pytest.mark.slow),
        pytest.param("duckdb", 4, 60, marks=pytest.mark.slow),
    ],
)
def test_what_stands_is_what_the_operations_do_one_after_the_other(
    url: str, tmp_path: Path, workers: int, times: int
) -> None:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        created = creation(lake, "t", SCHEMA, ["p"])
        work = jobs(url, tmp_path, workers, times, seed=1)
        assert run(write_rows, work) == [0] * workers
        noted = notes(work)
        judge(created, noted, "t", recorded(lake, "t"))
        found = [(row["p"], row["id"], row["tag"]) for row in lake.table("t").to_arrow().to_pylist()]
    everything = [note for told in noted.values() for note in told]
    assert sorted(found) == in_order(everything)
    outcomes = {note.operation.outcome for note in everything}
    committed = {note.operation.kind for note in everything if note.operation.outcome == "committed"}
    assert outcomes <= {"committed", "conflict"}
    assert committed > {"append"}
    if workers * times >= 200:
        # Nothing would be proven by many writers that never met, or by one verb alone.
        assert outcomes == {"committed", "conflict"}
        assert committed == {"append", "delete", "overwrite"}


# ---------------------------------------------------------------- transactions over several tables

TABLES = ("a", "b", "c")


def infos(commits: Sequence[RecordedCommit]) -> list[tuple[RecordedCommit, CommitInfo]]:
    return [(commit, action) for commit in commits for action in commit.actions if isinstance(action, CommitInfo)]


def check_groups(ledger: dict[str, list[RecordedCommit]]) -> int:
    """The members of each group know each other and share one instant; how many groups there are."""
    members: dict[str, dict[str, int]] = defaultdict(dict)
    said: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for name, commits in ledger.items():
        for commit, info in infos(commits):
            tags = info.fields.get("tags", {})
            if group := tags.get("deltasql.groupId"):
                assert info.fields["txnId"] == group
                members[group][name] = commit.version
                participants = orjson.dumps(orjson.loads(tags["deltasql.participants"]), option=orjson.OPT_SORT_KEYS)
                said[group].add((participants.decode(), commit.timestamp))
    for group, versions in members.items():
        ((participants, _),) = said[group]
        assert orjson.loads(participants) == versions
        assert len(versions) > 1
    return len(members)


@pytest.mark.parametrize(
    ("kind", "workers", "times"),
    [
        ("postgresql", 6, 25),
        ("sqlite", 6, 25),
        pytest.param("postgresql", 6, 400, marks=pytest.mark.slow),
        pytest.param("sqlite", 6, 400, marks=pytest.mark.slow),
    ],
)
def test_transactions_stand_or_fall_whole(
    kind: str, url: str, tmp_path: Path, workers: int, times: int, request: pytest.FixtureRequest
) -> None:
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        created = {name: creation(lake, name) for name in TABLES}
        work = jobs(url, tmp_path, workers, times, seed=2)
        assert run(commit_groups, work) == [0] * workers
        noted = notes(work)
        ledger = {name: recorded(lake, name) for name in TABLES}
    for name in TABLES:
        judge(created[name], noted, name, ledger[name])
    groups: dict[str, list[Note]] = defaultdict(list)
    for note in (note for found in noted.values() for note in found):
        groups[note.transaction or ""].append(note)
    whole = [{note.operation.outcome for note in members} for members in groups.values()]
    assert {"committed"} in whole
    assert {"failed"} in whole
    assert all(len(outcomes) == 1 for outcomes in whole)
    for members in groups.values():
        assert len({note.operation.timestamp for note in members}) == 1
    several = [members for members in groups.values() if len(members) > 1]
    expected = sum(members[0].operation.outcome == "committed" for members in several)
    assert check_groups(ledger) == expected
    if kind == "postgresql":
        # A deadlock would be run again, and nobody would hear of it but the server.
        assert deadlocks(request.getfixturevalue("postgres"), url) == 0


def deadlocks(server: PostgresServer, url: str) -> int:
    with server.admin() as admin:
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = %s"
        row = admin.execute(query, (urlsplit(url).path[1:],)).fetchone()
    assert row is not None
    return row[0]
