"""The mirror as a Spark job: tables are spread over executors, the driver alone keeps the books.

Spark holds no truth here. What is to be done comes from the outbox, what was done goes into it, and a job that is
lost is simply done again: putting the same bytes twice is success.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException

from deltasql.config import MirrorSettings
from deltasql.errors import LedgerBusyError
from deltasql.events import CheckpointFailed
from deltasql.ledger.contracts import Lease, TableEntry
from deltasql.mirror.engine import MirrorEngine, MirrorReport, TableReport
from deltasql.mirror.policy import checkpoint_due
from deltasql.mirror.publish import Failure, Outcome
from deltasql.ops.services import Services
from deltasql.spark.reach import within_reach
from deltasql.spark.tasks import CheckpointTask, PublishTask, checkpoint, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Versions one task takes on: enough to be worth a task, few enough that the books are never far behind.
_TASK_VERSIONS = 1_000


class _Run(msgspec.Struct):
    """One table in a run: how far it was, how far it shall come, and what it came to."""

    table: TableEntry
    lease: Lease
    before: int
    head: int
    looked: bool = False
    report: TableReport | None = None


def mirror_on_spark(
    spark: SparkSession,
    services: Services,
    engine: MirrorEngine,
    settings: MirrorSettings,
    tables: Iterable[TableEntry] | None = None,
) -> MirrorReport:
    """Publish every version that is pending now, each table's on an executor."""
    chosen = list(services.reader.tables() if tables is None else tables)
    if len(chosen) == 1 and len(services.outbox.unpublished(chosen[0], settings.batch_size + 1)) <= settings.batch_size:
        # A task would cost more than the work.
        return engine.run(chosen)
    reports: dict[str, TableReport] = {}
    runs: list[_Run] = []
    for table in filter(within_reach, chosen):
        lease = services.outbox.acquire(table, settings.lease_seconds)
        if lease is None:
            # Somebody else is at it; waiting for one table must not keep the others.
            continue
        head = services.reader.head(table).version
        runs.append(_Run(table, lease, services.outbox.mirror_head(table).published_version, head))
    try:
        _publish_all(spark, services, engine, runs)
        _checkpoint_all(spark, services, engine, settings, runs)
    finally:
        for run in runs:
            services.outbox.release(run.lease)
    for run in runs:
        reports[run.table.name] = run.report or engine.report(run.table, "published", run.before, run.head)
    for table in chosen:
        if table.name not in reports:
            reports[table.name] = engine.publish_table(table)
    return MirrorReport(tables=tuple(reports[table.name] for table in chosen))


def _publish_all(spark: SparkSession, services: Services, engine: MirrorEngine, runs: Sequence[_Run]) -> None:
    """Round after round, one task a table, until nothing that was pending at the start is left."""
    while True:
        work = [(run, task) for run in runs if run.report is None and (task := _next_task(services, run))]
        if not work:
            return
        outcomes = _fan_out(spark, publish, [task for _, task in work])
        for (run, task), outcome in zip(work, outcomes, strict=True):
            known = Outcome(failure=outcome) if isinstance(outcome, Failure) else outcome
            _record(services, engine, run, task, known)


def _next_task(services: Services, run: _Run) -> PublishTask | None:
    versions = services.outbox.unpublished(run.table, _TASK_VERSIONS)
    versions = [version for version in versions if version <= run.head]
    if not versions and run.looked:
        return None
    return PublishTask(
        ledger=services.ledger,
        storage=services.storage_options,
        table=run.table,
        published=services.outbox.mirror_head(run.table).published_version,
        versions=tuple(versions),
        look=not run.looked,
    )


def _record(services: Services, engine: MirrorEngine, run: _Run, task: PublishTask, outcome: Outcome) -> None:
    run.looked = True
    try:
        if task.look and outcome.foreign is None and outcome.failure is None:
            services.outbox.lift_quarantine(run.table)
        engine.record(run.table, run.lease, outcome)
    except LedgerBusyError as error:
        # Another publisher took over; what it publishes is what this one would have published.
        run.report = engine.report(run.table, "busy", run.before, run.head, error.message, error.hint)
        return
    if outcome.foreign is not None:
        run.report = engine.record_foreign(run.table, run.before, run.head, outcome.foreign)
    elif outcome.failure is not None:
        run.report = engine.record_failure(run.table, run.before, run.head, outcome.failure)


def _checkpoint_all(
    spark: SparkSession,
    services: Services,
    engine: MirrorEngine,
    settings: MirrorSettings,
    runs: Sequence[_Run],
) -> None:
    tasks: list[CheckpointTask] = []
    for run in runs:
        mirrored = services.outbox.mirror_head(run.table)
        if run.report is None and mirrored.published_version >= 0:
            state = services.reader.state(run.table, mirrored.published_version)
            if checkpoint_due(mirrored, state, settings):
                now = max(time.time_ns() // 1_000_000, state.timestamp)
                tasks.append(
                    CheckpointTask(
                        ledger=services.ledger,
                        storage=services.storage_options,
                        table=run.table,
                        version=state.version,
                        now=now,
                    )
                )
    if not tasks:
        return
    for task, written in zip(tasks, _fan_out(spark, checkpoint, tasks), strict=True):
        if isinstance(written, Failure):
            # Readers do without it; the commits are there.
            services.sink(CheckpointFailed(table=task.table.name, version=task.version, error=written.message))
        else:
            engine.record_checkpoint(task.table, written)


def _fan_out(spark: SparkSession, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run each task as a Spark task of its own; the answers, or a `Failure`, come back in the tasks' order."""
    # The RDD interface: mapInArrow would want pandas of every user.
    context: Any = spark.sparkContext
    try:
        return context.parallelize(tasks, len(tasks)).map(work).collect()
    except (PySparkException, Py4JError) as error:
        # A process that dies takes the whole job with it. Alone, each task answers for itself.
        if len(tasks) > 1:
            return [answer for task in tasks for answer in _fan_out(spark, work, [task])]
        reason = " ".join(str(error).splitlines()[:2])[:500]
        hint = "look for the reason in the logs of Spark's executors; the next run tries again"
        return [Failure(error_class="transient", message=f"the Spark task failed: {reason}", hint=hint)]
