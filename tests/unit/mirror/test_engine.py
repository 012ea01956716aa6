"""The mirror engine: strict order, nothing overwritten, failures kept in the outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake, Table
from deltasql.config import MirrorSettings
from deltasql.errors import StorageUnavailableError
from deltasql.events import (
    CheckpointFailed,
    CheckpointPublished,
    Event,
    PublishFailed,
    TableQuarantined,
    VersionsPublished,
)
from deltasql.protocol.jsonlog import sha256
from deltasql.storage.locations import open_store
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def lake(tmp_path: Path, events: list[Event]) -> Iterator[Lake]:
    # Stores in memory live as long as the process: each test takes one of its own.
    root = f"memory://{uuid4()}"
    settings = MirrorSettings(batch_size=4, wait_seconds=0.2)
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=root, mirror=settings, sink=events.append) as opened:
        yield opened


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create_table("t", SCHEMA)


def store_of(table: Table) -> MemoryStore:
    store = open_store(table.location)
    assert isinstance(store, MemoryStore)
    return store


def log_of(table: Table) -> dict[str, bytes]:
    store = store_of(table)
    return {meta.key.removeprefix("_delta_log/"): store.get(meta.key) for meta in store.list("_delta_log/")}


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def test_every_version_is_published_with_the_bytes_promised_at_the_commit(lake: Lake, table: Table) -> None:
    for number in range(9):
        table.append(rows(number))
    report = lake.mirror()
    assert report.ok
    assert report.published == 10
    log = log_of(table)
    assert sorted(name for name in log) == [commit_name(version) for version in range(10)]
    for status in table.mirror_status():
        data = log[commit_name(status.version)]
        assert (status.state, status.attempts) == ("SUCCESS", 1)
        assert (status.sha256, status.bytes) == (sha256(data), len(data))
        assert status.published_at is not None


def test_a_second_run_has_nothing_to_do(lake: Lake, table: Table) -> None:
    lake.mirror()
    before = log_of(table)
    report = lake.mirror()
    assert (report.ok, report.published) == (True, 0)
    assert log_of(table) == before


def test_the_same_bytes_already_there_are_success(lake: Lake, table: Table) -> None:
    table.append(rows(1))
    # What a publisher that died between its PUT and the status update leaves behind.
    first = next(iter(lake._services.reader.commits(table._entry, 0, 0)))
    data = first.encode()
    assert data is not None
    store_of(table).put(f"_delta_log/{commit_name(0)}", data)
    report = lake.mirror()
    assert (report.ok, report.published) == (True, 2)
    assert log_of(table)[commit_name(0)] == data


@pytest.mark.parametrize("found", [b"", b'{"commitInfo":{}}\n', b"\x00garbage"])
def test_other_bytes_stop_the_table_and_are_not_touched(
    lake: Lake, table: Table, events: list[Event], found: bytes
) -> None:
    lake.mirror()
    table.append(rows(1))
    table.append(rows(2))
    store_of(table).put(f"_delta_log/{commit_name(1)}", found)
    (report,) = lake.mirror().tables
    assert (report.outcome, report.published_version) == ("quarantined", 0)
    assert report.error
    assert "move the foreign file" in (report.hint or "")
    assert log_of(table)[commit_name(1)] == found
    assert commit_name(2) not in log_of(table)
    lake.mirror()
    # Told once, however often it is met.
    assert [event.version for event in events if isinstance(event, TableQuarantined)] == [1]
    # Commits go on: the ledger is the truth, and the debt is kept.
    assert table.append(rows(3)).version == 3
    assert [status.state for status in table.mirror_status(unpublished_only=True)] == ["PENDING"] * 3
    assert not lake.mirror().ok


def test_a_foreign_commit_further_up_stops_the_table_before_anything_is_put_below_it(lake: Lake, table: Table) -> None:
    lake.mirror()
    table.append(rows(1))
    store_of(table).put(f"_delta_log/{commit_name(5)}", b"{}")
    (report,) = lake.mirror().tables
    assert report.outcome == "quarantined"
    assert commit_name(1) not in log_of(table)
    assert table.mirror_head().quarantined_version == 5


def test_a_foreign_commit_is_noticed_with_nothing_pending(lake: Lake, table: Table) -> None:
    lake.mirror()
    store_of(table).put(f"_delta_log/{commit_name(1)}", b"{}")
    assert not lake.mirror().ok


def test_publishing_goes_on_once_the_operator_moved_the_foreign_file_away(lake: Lake, table: Table) -> None:
    table.append(rows(1))
    store_of(table).put(f"_delta_log/{commit_name(1)}", b"{}")
    assert not lake.mirror().ok
    store_of(table).rename(f"_delta_log/{commit_name(1)}", "aside.json")
    report = lake.mirror()
    assert report.ok
    assert table.mirror_head().published_version == 1
    assert not table.mirror_head().quarantined


def test_one_bad_table_does_not_stop_the_others(lake: Lake, table: Table) -> None:
    other = lake.create_table("u", SCHEMA)
    store_of(table).put(f"_delta_log/{commit_name(0)}", b"{}")
    reports = {report.table: report.outcome for report in lake.mirror().tables}
    assert reports == {"t": "quarantined", "u": "published"}
    assert commit_name(0) in log_of(other)


def test_a_failing_store_leaves_the_version_failed_and_the_next_run_completes(
    lake: Lake, table: Table, events: list[Event]
) -> None:
    lake.mirror()
    table.append(rows(1))
    table.append(rows(2))
    store_of(table).fail_next("put_if_absent", StorageUnavailableError("503", hint="wait"))
    (report,) = lake.mirror().tables
    assert (report.outcome, report.published_version) == ("failed", 0)
    first, second = table.mirror_status(unpublished_only=True)
    assert (first.state, first.attempts, first.error_class) == ("FAILED", 1, "transient")
    assert "503" in (first.error or "")
    assert second.state == "PENDING"
    assert [event.version for event in events if isinstance(event, PublishFailed)] == [1]
    assert lake.mirror().ok
    assert [(s.state, s.attempts) for s in table.mirror_status()] == [("SUCCESS", 1), ("SUCCESS", 2), ("SUCCESS", 1)]


def test_a_failure_in_the_middle_of_a_batch_keeps_what_was_put(lake: Lake, table: Table) -> None:
    for number in range(3):
        table.append(rows(number))
    # The third put fails: versions 0 and 1 are in the log.
    store_of(table).fail_next("put_if_absent", StorageUnavailableError("reset", hint="wait"), skip=2)
    (report,) = lake.mirror().tables
    assert (report.outcome, report.published, report.published_version) == ("failed", 2, 1)
    assert [status.state for status in table.mirror_status()] == ["SUCCESS", "SUCCESS", "FAILED", "PENDING"]


def test_a_lost_answer_is_not_taken_for_a_conflict(lake: Lake, table: Table) -> None:
    store_of(table).lose_answer("put_if_absent")
    report = lake.mirror()
    assert report.ok
    assert [status.attempts for status in table.mirror_status()] == [1]


def test_checkpoints_come_by_the_interval_and_cover_the_published_head(
    lake: Lake, table: Table, events: list[Event]
) -> None:
    for number in range(12):
        table.append(rows(number))
    lake.mirror()
    assert table.mirror_head().checkpoint_version == 12
    assert [event.version for event in events if isinstance(event, CheckpointPublished)] == [12]
    assert f"{12:020d}.checkpoint.parquet" in log_of(table)
    for number in range(9):
        table.append(rows(number))
    lake.mirror()
    assert table.mirror_head().checkpoint_version == 12
    table.append(rows(0))
    lake.mirror()
    assert table.mirror_head().checkpoint_version == 22


def test_a_tables_own_interval_goes_first(lake: Lake) -> None:
    table = lake.create_table("own", SCHEMA, properties={"delta.checkpointInterval": "2"})
    table.append(rows(1))
    lake.mirror()
    assert table.mirror_head().checkpoint_version is None
    table.append(rows(1))
    lake.mirror()
    assert table.mirror_head().checkpoint_version == 2


def test_a_checkpoint_that_fails_does_not_fail_the_commits(lake: Lake, table: Table, events: list[Event]) -> None:
    for number in range(10):
        table.append(rows(number))
    store_of(table).fail_next("put", StorageUnavailableError("503", hint="wait"))
    assert lake.mirror().ok
    assert [event.version for event in events if isinstance(event, CheckpointFailed)] == [10]
    assert table.mirror_head().published_version == 10
    assert lake.mirror().ok
    assert table.mirror_head().checkpoint_version == 10


def test_a_table_that_another_publisher_holds_is_reported_busy(lake: Lake, table: Table) -> None:
    held = lake._services.outbox.acquire(table._entry, 60)
    assert held is not None
    (report,) = lake.mirror().tables
    assert report.outcome == "busy"
    assert log_of(table) == {}
    lake._services.outbox.release(held)
    assert lake.mirror().ok


def test_a_ledger_that_was_tampered_with_is_not_published(lake: Lake, table: Table, tmp_path: Path) -> None:
    table.append(rows(1))
    with sqlite3.connect(tmp_path / "lake.db") as connection:
        connection.execute("UPDATE dl_add_files SET size = size + 1")
    (report,) = lake.mirror().tables
    assert (report.outcome, report.published_version) == ("failed", 0)
    assert "does not encode to the bytes" in (report.error or "")
    assert commit_name(1) not in log_of(table)


def test_a_run_ends_although_commits_keep_coming(lake: Lake, table: Table, events: list[Event]) -> None:
    """What was pending at the call is published; what comes meanwhile is for the next one."""
    table.append(rows(0))

    def commit_again(event: Event) -> None:
        if isinstance(event, VersionsPublished) and len(events) < 20:
            events.append(event)
            table.append(rows(1))

    lake._engine._sink = commit_again
    (report,) = lake.mirror().tables
    assert (report.head_version, report.published_version) == (1, 1)
    assert table.version == 2
