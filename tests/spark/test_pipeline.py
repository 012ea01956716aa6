"""The mirror as a Spark job: executors put the files, the driver alone keeps the books."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltasql import MirrorSettings, Table
from deltasql.events import CheckpointFailed, CheckpointPublished, Event, PublishFailed, TableQuarantined
from deltasql.mirror.engine import MirrorReport
from deltasql.protocol.jsonlog import sha256
from deltasql.protocol.paths import checkpoint_name, commit_name
from deltasql.spark import pipeline, tasks
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64())])
SETTINGS = MirrorSettings(wait_seconds=0.2)


class Jobs:
    """What was handed to Spark, job by job, and a thing to do when a job is done and nothing of it is recorded."""

    def __init__(self, fan_out: Callable[..., list[Any]]) -> None:
        self._fan_out = fan_out
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.afterwards: Callable[[], None] = lambda: None

    def __call__(self, spark: SparkSession, work: Callable[[Any], Any], handed: Sequence[Any]) -> list[Any]:
        answers = self._fan_out(spark, work, handed)
        self.done.append((work.__name__, {task.table.name: task for task in handed}))
        self.afterwards()
        return answers

    @property
    def versions(self) -> list[dict[str, tuple[int, ...]]]:
        """By table, the versions of each job that publishes."""
        return [{name: task.versions for name, task in job.items()} for kind, job in self.done if kind == "publish"]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    spy = Jobs(pipeline._fan_out)
    monkeypatch.setattr(pipeline, "_fan_out", spy)
    return spy


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, events: list[Event]) -> Iterator[SparkLake]:
    made = SparkLake(spark, tmp_path, SETTINGS, events.append)
    with made.lake:
        yield made


def filled(here: SparkLake, name: str, versions: int, **properties: str) -> Table:
    table = here.create(name, SCHEMA, **properties)
    for number in range(1, versions):
        table.append(pa.table({"k": [number]}))
    return table


def log(table: Table) -> Path:
    folder = Path(unquote(table.location.removeprefix("file://"))) / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def commits(table: Table) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(log(table).glob("*.json"))}


def promised(table: Table) -> dict[str, str]:
    return {commit_name(status.version): status.sha256 for status in table.mirror_status()}


def outcomes(report: MirrorReport) -> dict[str, tuple[str, int]]:
    return {table.table: (table.outcome, table.published_version) for table in report.tables}


def states(table: Table) -> list[str]:
    return [status.state for status in table.mirror_status()]


def test_many_tables_at_once(here: SparkLake, jobs: Jobs, tmp_path: Path) -> None:
    tables = [filled(here, f"t{number}", versions=number + 1) for number in range(6)]
    seen: list[list[str]] = []
    # The files are there, and no state has moved: whoever put them does not keep the books.
    jobs.afterwards = lambda: seen.extend(states(table) for table in tables if commits(table))
    report = here.lake.mirror(spark=here.spark)
    assert outcomes(report) == {f"t{number}": ("published", number) for number in range(6)}
    assert report.published == 1 + 2 + 3 + 4 + 5 + 6
    assert seen == [["PENDING"] * (number + 1) for number in range(6)]
    assert jobs.versions == [{f"t{number}": tuple(range(number + 1)) for number in range(6)}]
    for table in tables:
        assert {name: sha256(data) for name, data in commits(table).items()} == promised(table)
        assert set(states(table)) == {"SUCCESS"}
        # And the very bytes that this process would have put.
        here.lake.rebuild(table.name, to=str(tmp_path / "again" / table.name))
        again = tmp_path / "again" / table.name / "_delta_log"
        assert {file.name: file.read_bytes() for file in again.glob("*.json")} == commits(table)


def test_a_second_run_has_nothing_to_do(here: SparkLake, jobs: Jobs) -> None:
    tables = [filled(here, name, versions=2) for name in ("a", "b")]
    here.lake.mirror(spark=here.spark)
    before = [commits(table) for table in tables]
    report = here.lake.mirror(spark=here.spark)
    assert (report.ok, report.published) == (True, 0)
    assert [commits(table) for table in tables] == before
    assert [status.attempts for table in tables for status in table.mirror_status()] == [1] * 4


def test_a_little_work_is_done_here_and_much_on_spark(here: SparkLake, jobs: Jobs) -> None:
    filled(here, "t", versions=3)
    assert here.lake.mirror(spark=here.spark).published == 3
    assert jobs.done == []
    for number in range(SETTINGS.batch_size + 1):
        here.lake.table("t").append(pa.table({"k": [number]}))
    assert here.lake.mirror(spark=here.spark).published == SETTINGS.batch_size + 1
    assert len(jobs.versions) == 1


def test_more_versions_than_one_task_takes(here: SparkLake, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_TASK_VERSIONS", 3)
    many, few = filled(here, "many", versions=8), filled(here, "few", versions=2)
    # What is committed meanwhile is for the next run.
    jobs.afterwards = lambda: many.append(pa.table({"k": [0]})) and None
    report = here.lake.mirror(spark=here.spark)
    assert outcomes(report) == {"few": ("published", 1), "many": ("published", 7)}
    assert jobs.versions == [{"few": (0, 1), "many": (0, 1, 2)}, {"many": (3, 4, 5)}, {"many": (6, 7)}]
    assert list(commits(many)) == [commit_name(version) for version in range(8)]
    assert (many.version, set(states(few))) == (10, {"SUCCESS"})


@pytest.mark.parametrize("content", [b"", b'{"commitInfo":{}}\n'], ids=["empty", "other"])
def test_a_foreign_file_stops_its_table_only(here: SparkLake, events: list[Event], content: bytes) -> None:
    good, bad = filled(here, "good", versions=3), filled(here, "bad", versions=3)
    foreign = log(bad) / commit_name(1)
    foreign.write_bytes(content)
    report = here.lake.mirror(spark=here.spark)
    assert outcomes(report) == {"bad": ("quarantined", -1), "good": ("published", 2)}
    assert commits(bad) == {commit_name(1): content}
    assert [(event.table, event.version) for event in events if isinstance(event, TableQuarantined)] == [("bad", 1)]
    assert bad.mirror_head().quarantined_version == 1
    # The operator moves it away: publishing goes on, and the table counts as sound.
    foreign.rename(here.folder / "aside.json")
    assert outcomes(here.lake.mirror(spark=here.spark)) == {"bad": ("published", 2), "good": ("published", 2)}
    assert not bad.mirror_head().quarantined
    assert {name: sha256(data) for name, data in commits(bad).items()} == promised(bad)
    assert len(commits(good)) == 3


def test_a_failing_store_stops_its_table_in_order_and_the_next_run_completes(
    here: SparkLake, events: list[Event]
) -> None:
    filled(here, "good", versions=2)
    bad = filled(here, "bad", versions=5)
    # Where a folder stands no file can be put.
    obstacle = log(bad) / commit_name(2)
    obstacle.mkdir()
    report = here.lake.mirror(spark=here.spark)
    assert outcomes(report) == {"bad": ("failed", 1), "good": ("published", 1)}
    [told] = [table for table in report.tables if table.table == "bad"]
    assert told.error
    assert states(bad) == ["SUCCESS", "SUCCESS", "FAILED", "PENDING", "PENDING"]
    assert [(event.table, event.version) for event in events if isinstance(event, PublishFailed)] == [("bad", 2)]
    obstacle.rmdir()
    assert list(commits(bad)) == [commit_name(0), commit_name(1)], "nothing was put above what failed"
    assert here.lake.mirror(spark=here.spark).ok
    assert {name: sha256(data) for name, data in commits(bad).items()} == promised(bad)


def test_checkpoints_are_written_by_executors(here: SparkLake, jobs: Jobs, events: list[Event]) -> None:
    often = {"delta.checkpointInterval": "2"}
    due, failing, not_due = filled(here, "due", 4, **often), filled(here, "failing", 3, **often), filled(here, "x", 3)
    obstacle = log(failing) / checkpoint_name(2)
    obstacle.mkdir()
    recorded: list[int | None] = []
    jobs.afterwards = lambda: recorded.append(due.mirror_head().checkpoint_version)
    assert here.lake.mirror(spark=here.spark).ok
    assert [(kind, set(job)) for kind, job in jobs.done] == [
        ("publish", {"due", "failing", "x"}),
        ("checkpoint", {"due", "failing"}),
    ]
    assert recorded == [None, None], "only the driver notes a checkpoint"
    assert [table.mirror_head().checkpoint_version for table in (due, failing, not_due)] == [3, None, None]
    assert (log(due) / checkpoint_name(3)).exists()
    assert (log(due) / "_last_checkpoint").exists()
    assert [event.table for event in events if isinstance(event, CheckpointPublished)] == ["due"]
    assert [event.table for event in events if isinstance(event, CheckpointFailed)] == ["failing"]
    # Readers do without it; the next run makes up for it.
    obstacle.rmdir()
    assert here.lake.mirror(spark=here.spark).ok
    assert failing.mirror_head().checkpoint_version == 2


def test_a_table_that_another_publisher_holds(here: SparkLake, jobs: Jobs) -> None:
    held, free = filled(here, "held", versions=2), filled(here, "free", versions=2)
    outbox = here.lake._services.outbox
    lease = outbox.acquire(held._entry, 60)
    assert lease is not None
    assert outcomes(here.lake.mirror(spark=here.spark)) == {"held": ("busy", -1), "free": ("published", 1)}
    assert commits(held) == {}
    free.append(pa.table({"k": [1]}))
    # Given back while the others are at work, it is published in the same run.
    jobs.afterwards = lambda: outbox.release(lease)
    assert outcomes(here.lake.mirror(spark=here.spark)) == {"held": ("published", 1), "free": ("published", 2)}


def test_a_lease_that_was_lost_meanwhile(here: SparkLake, jobs: Jobs) -> None:
    lost, kept = filled(here, "lost", versions=2), filled(here, "kept", versions=2)

    def take_over() -> None:
        with sqlite3.connect(here.folder / "ledger.db") as database:
            database.execute("update dl_leases set fence = fence + 1 where table_id = ?", (lost._entry.table_id,))

    jobs.afterwards = take_over
    report = here.lake.mirror(spark=here.spark)
    # The files are there, but the books are another's to keep.
    assert outcomes(report) == {"lost": ("busy", -1), "kept": ("published", 1)}
    assert states(lost) == ["PENDING", "PENDING"]
    before = commits(lost)
    jobs.afterwards = lambda: None
    with sqlite3.connect(here.folder / "ledger.db") as database:
        database.execute("update dl_leases set expires_at = 0")
    assert here.lake.mirror(spark=here.spark).ok
    assert commits(lost) == before
    assert set(states(kept)) == {"SUCCESS"}


def test_a_process_that_dies_takes_no_other_table_with_it(here: SparkLake, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = filled(here, "bad", versions=2), [filled(here, name, versions=2) for name in ("a", "c")]
    publish = tasks.publish

    def die_over_bad(task: tasks.PublishTask) -> Any:
        outcome = publish(task)
        if task.table.name == "bad":
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    monkeypatch.setattr(pipeline, "publish", die_over_bad)
    report = here.lake.mirror(spark=here.spark)
    assert outcomes(report) == {"a": ("published", 1), "bad": ("failed", -1), "c": ("published", 1)}
    [told] = [table for table in report.tables if table.table == "bad"]
    assert "the Spark task failed" in (told.error or "")
    assert "crashed" in (told.error or "")
    assert told.hint
    assert states(bad) == ["FAILED", "PENDING"]
    # It had put its files already. Putting the same bytes again is success.
    before = commits(bad)
    assert len(before) == 2
    monkeypatch.setattr(pipeline, "publish", publish)
    assert here.lake.mirror(spark=here.spark).ok
    assert commits(bad) == before
    assert all(set(states(table)) == {"SUCCESS"} for table in [bad, *good])


def test_only_the_tables_asked_for(here: SparkLake) -> None:
    for name in ("a", "b", "c"):
        filled(here, name, versions=1)
    report = here.lake.mirror(spark=here.spark, tables=["c", "a"])
    assert [table.table for table in report.tables] == ["c", "a"]
    assert here.lake.table("b").mirror_head().published_version == -1
