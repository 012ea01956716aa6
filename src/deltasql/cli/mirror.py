"""Verbs on the mirror: publish now, and how far it has come."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from deltasql.cli.failures import FAILURE
from deltasql.cli.options import AsJson, LedgerUrl, TableNames, open_lake
from deltasql.cli.output import instant, print_event, print_event_json, print_json, print_problem, print_table
from deltasql.errors import ConfigError, LedgerUnavailableError
from deltasql.events import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasql.client import Lake, Table
    from deltasql.ledger.listening import Listener

app = typer.Typer(name="mirror", help="Publish the ledger's commits to the logs.", invoke_without_command=True)


Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Run on Spark: local[*], spark://…", show_default=False)
]


@app.command()
def once(tables: TableNames = None, master: Master = None, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Publish every version that is pending now.

    In this process, or on Spark where --master names one. Exits 1 where a table could not be published.
    """
    with open_lake(ledger) as lake, _session(master) as spark:
        report = lake.mirror(spark, tables=tables or None)
    if as_json:
        print_json({"ok": report.ok, "published": report.published, "tables": report.tables})
    else:
        print_table(
            ["table", "outcome", "new", "published", "head", "checkpoint"],
            [
                (
                    each.table,
                    each.outcome,
                    each.published,
                    _version(each.published_version),
                    each.head_version,
                    each.checkpoint_version,
                )
                for each in report.tables
            ],
        )
        for each in report.tables:
            if each.outcome != "published":
                print_problem(
                    f"{each.table}: {each.error or 'another publisher holds this table'}",
                    each.hint or "wait for it, then run: deltasql mirror once",
                )
    if not report.ok:
        raise typer.Exit(FAILURE)


@app.command()
def run(
    master: Master = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark, in this process.")] = False,
    interval: Annotated[
        float, typer.Option(help="Seconds between looks at the outbox where no commit is heard.", min=0.01, max=3600)
    ] = 0.5,
    look: Annotated[float, typer.Option(help="Seconds between looks at logs that owe nothing.", min=1)] = 60.0,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Publish for as long as it runs.

    Ctrl-C or SIGTERM ends it after the versions at hand. On Spark (--master, local[*] by default), or with
    --in-process without. Prints what it does, a line each; with --json a JSON document a line.
    """
    if in_process and master is not None:
        raise ConfigError("both --in-process and --master", hint="give one of them", field="master")
    ended = Event()

    def end(_number: int, _frame: object) -> None:
        ended.set()

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    said: Sink = print_event_json if as_json else print_event
    with (
        open_lake(ledger, sink=said) as lake,
        _session(None if in_process else master or "local[*]") as spark,
        closing(lake.listen()) as listener,
    ):
        looked = float("-inf")
        while not ended.is_set():
            try:
                looked = _publish(lake, spark, looked, look)
                _wait(listener, interval, ended)
            except LedgerUnavailableError as error:
                # The ledger keeps what is owed; there is nothing to do but to come back.
                print_problem(error.message, "trying again in a second")
                ended.wait(1.0)


def _publish(lake: Lake, spark: SparkSession | None, looked: float, look: float) -> float:
    """Publish what is owed, or, now and then, look at every log; when that was done last."""
    if time.monotonic() - looked >= look:
        lake.mirror(spark)
        return time.monotonic()
    # A quarantined table waits for its operator, and for the next look at everything.
    if owing := [table.name for table in lake.owing() if not table.mirror_head().quarantined]:
        lake.mirror(spark, tables=owing)
    return looked


def _wait(listener: Listener, seconds: float, ended: Event) -> None:
    """Until a commit is heard, the time is over, or the end was asked for: that is looked for a few times a second."""
    deadline = time.monotonic() + seconds
    while not ended.is_set() and (left := deadline - time.monotonic()) > 0:
        if listener.wait(min(left, 0.2)):
            return


@contextmanager
def _session(master: str | None) -> Generator[SparkSession | None]:
    if master is None:
        yield None
        return
    from deltasql.spark.session import spark_session

    with spark_session(master, "deltasql mirror") as spark:
        yield spark


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one table's mirror stands. `pending` counts every version that is not in the log yet."""

    table: str
    state: Literal["published", "pending", "failed", "quarantined"]
    head_version: int
    published_version: int | None
    pending: int
    oldest_pending_at: int | None
    checkpoint_version: int | None
    quarantined_version: int | None
    error: str | None
    hint: str | None

    @property
    def ok(self) -> bool:
        return self.state in ("published", "pending")


@app.command()
def status(tables: TableNames = None, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Show how far each log has come.

    Exits 1 where a table has failed or is quarantined.
    """
    with open_lake(ledger) as lake:
        chosen = [lake.table(name) for name in tables] if tables else lake.tables()
        standings = [_standing(table) for table in chosen]
    ok = all(each.ok for each in standings)
    if as_json:
        print_json({"ok": ok, "tables": standings})
    else:
        print_table(
            ["table", "state", "published", "head", "pending", "since", "checkpoint"],
            [
                (
                    each.table,
                    each.state,
                    each.published_version,
                    each.head_version,
                    each.pending,
                    instant(each.oldest_pending_at),
                    each.checkpoint_version,
                )
                for each in standings
            ],
        )
        for each in standings:
            if not each.ok:
                print_problem(f"{each.table}: {each.error}", each.hint)
    if not ok:
        raise typer.Exit(FAILURE)


def _standing(table: Table) -> Standing:
    mirrored = table.mirror_head()
    owed = table.mirror_status(unpublished_only=True)
    failed = next((each for each in owed if each.state == "FAILED"), None)
    state, error, hint = ("pending" if owed else "published"), None, None
    if mirrored.quarantined:
        state, error = "quarantined", mirrored.quarantine_reason
        hint = (
            f"look at {table.location}/_delta_log and move the foreign file out of it, then run: "
            f"deltasql mirror once {table.name}"
        )
    elif failed is not None:
        state, error = "failed", f"version {failed.version}: {failed.error}"
        hint = f"put that right, then run: deltasql mirror once {table.name}"
    return Standing(
        table=table.name,
        state=state,
        head_version=table.version,
        published_version=_version(mirrored.published_version),
        pending=len(owed),
        oldest_pending_at=owed[0].created_at if owed else None,
        checkpoint_version=mirrored.checkpoint_version,
        quarantined_version=mirrored.quarantined_version,
        error=error,
        hint=hint,
    )


def _version(published: int) -> int | None:
    """None where nothing is in the log yet."""
    return None if published < 0 else published
