"""`deltasql demo`: the main job, end to end, on this machine."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from deltasql.cli.failures import FAILURE
from deltasql.cli.options import AsJson
from deltasql.cli.output import print_json, print_line, print_problem, print_table
from deltasql.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltasql.client import Lake, Table

# Marks a folder as one that the demo made and may empty.
_MARK = ".deltasql-demo"
_FIRST_DAY = date(2026, 1, 1)
_DAYS = 4


class _Steps:
    """Says what is being done, and keeps how long it took."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.taken: list[tuple[str, float]] = []

    @contextmanager
    def step(self, words: str) -> Generator[None]:
        started = time.monotonic()
        if not self._silent:
            print_line(f"• {words} …")
        yield
        self.taken.append((words, round(time.monotonic() - started, 2)))

    def say(self, words: str) -> None:
        if not self._silent:
            print_line(f"    {words}")


def demo(
    folder: Annotated[
        Path, typer.Option("--dir", help="Where the demo's lake is made; emptied first.", show_default=True)
    ] = Path("deltasql-demo"),
    rows: Annotated[int, typer.Option(help="Orders to write.", min=100, max=10_000_000)] = 20_000,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Show the main job, end to end, on this machine.

    PySpark writes, SQL commits, the mirror publishes, and four foreign readers agree with the ledger. Makes a SQLite
    ledger and a local warehouse in a folder of its own; running it again starts over.
    """
    from deltasql.cli.demo_readers import READERS, require_readers, with_delta
    from deltasql.client import connect
    from deltasql.spark import register
    from deltasql.spark.session import require_java, require_pyspark, spark_session

    require_pyspark()
    require_java()
    require_readers()
    home = _fresh(folder)
    steps = _Steps(silent=as_json)
    ledger = f"sqlite:///{quote(str(home / 'lake.db'))}"
    with ExitStack() as stack:
        with steps.step(f"Starting Spark on {master} (the first time it fetches Delta's jars, for the reader)"):
            session = spark_session(master, "deltasql demo", log=home / "spark.log", configure=with_delta)
            spark = stack.enter_context(session)
            register(spark)
        lake = stack.enter_context(connect(ledger, root=str(home / "warehouse")))
        customers, orders = _create(lake, steps)
        _write(spark, lake, ledger, rows, steps)
        with steps.step("Publishing the log from Spark: one task a table, states moved by the driver"):
            report = lake.mirror(spark)
            steps.say(f"{report.published} versions published")
        with steps.step("Writing a checkpoint of each table, straight from the ledger"):
            for table in (customers, orders):
                steps.say(f"{table.name}: checkpoint at version {table.checkpoint()}")
        agreed = [_compare(table, spark, READERS, steps) for table in (customers, orders)]
        identical = _lose_and_rebuild(lake, home, orders, steps)
    ok = report.ok and all(each["agree"] for table in agreed for each in table["readers"]) and identical
    if as_json:
        print_json({"ok": ok, "folder": str(home), "ledger": ledger, "tables": agreed, "rebuilt_identical": identical})
    else:
        _summarise(folder, ledger, orders, agreed, steps)
    if not ok:
        print_problem("the readers and the ledger do not agree", f"look into {home}; this is a bug, please report it")
        raise typer.Exit(FAILURE)


def _fresh(folder: Path) -> Path:
    home = folder.absolute()
    if home.exists():
        if any(home.iterdir()) and not (home / _MARK).exists():
            raise ConfigError(
                f"{home} is not empty, and no demo made it", hint="name another folder with --dir", field="dir"
            )
        shutil.rmtree(home)
    home.mkdir(parents=True)
    (home / _MARK).touch()
    return home


def _create(lake: Lake, steps: _Steps) -> tuple[Table, Table]:
    import pyarrow as pa

    with steps.step("Creating two tables in the ledger: shop.customers, and shop.orders partitioned by day"):
        customers = lake.create_table(
            "shop.customers",
            pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("since", pa.date32())]),
        )
        orders = lake.create_table(
            "shop.orders",
            pa.schema(
                [
                    pa.field("id", pa.int64(), nullable=False),
                    ("customer", pa.int64()),
                    ("amount", pa.decimal128(12, 2)),
                    ("placed", pa.timestamp("us", "UTC")),
                    ("day", pa.date32()),
                ]
            ),
            partition_by=["day"],
        )
    return customers, orders


def _write(spark: SparkSession, lake: Lake, ledger: str, rows: int, steps: _Steps) -> None:
    people = max(10, rows // 100)
    with steps.step(f"Writing {people:,} customers and {rows:,} orders from PySpark, a commit a day"):
        name = "concat('customer ', id) AS name"
        since = f"date_sub(DATE'{_FIRST_DAY}', cast(id % 900 AS int)) AS since"
        _save(spark.range(people).selectExpr("id", name, since), ledger, "shop.customers")
        share = rows // _DAYS
        for number in range(_DAYS):
            _save(_orders(spark, number * share, share, people, number), ledger, "shop.orders")
        steps.say(f"shop.orders stands at version {lake.table('shop.orders').version}")
    with steps.step("One transaction over both tables: a new customer and the first order, or neither"):
        customer, order = _newcomer(people, rows)
        with lake.transaction() as tx:
            tx.table("shop.customers").append(customer)
            tx.table("shop.orders").append(order)
        steps.say(
            ", ".join(f"{each.table} → version {each.version}" for each in tx.result)
            + f" (group {tx.result[0].group_id})"
        )
    with steps.step("Deleting the orders of one customer, and replacing one day"):
        table = lake.table("shop.orders")
        table.delete("customer = 3")
        last = _FIRST_DAY + timedelta(days=_DAYS - 1)
        table.overwrite(table.to_arrow(filter=f"day = DATE'{last}' AND amount >= 10"), where=f"day = DATE'{last}'")
        steps.say(f"shop.orders stands at version {table.version}")


def _save(frame: DataFrame, ledger: str, table: str) -> None:
    frame.write.format("deltasql").option("ledger", ledger).option("table", table).mode("append").save()


def _orders(spark: SparkSession, first: int, count: int, people: int, number: int) -> DataFrame:
    day = _FIRST_DAY + timedelta(days=number)
    return spark.range(first, first + count).selectExpr(
        "id",
        f"id % {people} AS customer",
        "cast((id * 7919 % 100000) / 100 AS decimal(12,2)) AS amount",
        f"TIMESTAMP'{day} 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 86400) AS placed",
        f"DATE'{day}' AS day",
    )


def _newcomer(people: int, rows: int) -> tuple[pa.Table, pa.Table]:
    from datetime import UTC, datetime
    from decimal import Decimal

    import pyarrow as pa

    customer = pa.table({"id": [people], "name": ["the newcomer"], "since": [_FIRST_DAY]})
    order = pa.table(
        {
            "id": [rows],
            "customer": [people],
            "amount": pa.array([Decimal("42.00")], pa.decimal128(12, 2)),
            "placed": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "day": [_FIRST_DAY],
        }
    )
    return customer, order


def _compare(table: Table, spark: SparkSession, readers: Iterable[Any], steps: _Steps) -> dict[str, Any]:
    expected = fingerprint(table.to_arrow())
    found: list[dict[str, Any]] = []
    for reader in readers:
        with steps.step(f"{reader.name} reads {table.name} by its path"):
            seen = fingerprint(reader.read(table.location, spark))
            found.append({"reader": reader.name, "rows": seen[0], "agree": seen == expected})
            steps.say(f"{seen[0]:,} rows, {'the same as' if seen == expected else 'NOT the same as'} the ledger's")
    return {"table": table.name, "version": table.version, "rows": expected[0], "readers": found}


def fingerprint(rows: pa.Table) -> tuple[int, int]:
    """The number of rows and a sum over them that does not depend on their order."""
    names = sorted(rows.column_names)
    columns = [rows.column(name).to_pylist() for name in names]
    return rows.num_rows, sum(hash(row) for row in zip(*columns, strict=True))


def _lose_and_rebuild(lake: Lake, home: Path, table: Table, steps: _Steps) -> bool:
    log = home / "warehouse" / "shop" / "orders" / "_delta_log"
    victim = log / f"{random.randint(0, table.version):020d}.json"  # noqa: S311 (any will do)
    before = victim.read_bytes()
    with steps.step(f"Deleting {victim.name} from the log of {table.name} and rebuilding it from the ledger"):
        victim.unlink()
        lake.rebuild(table.name)
        identical = victim.read_bytes() == before
        steps.say(f"{len(before):,} bytes, {'identical' if identical else 'NOT identical'}")
    return identical


def _summarise(folder: Path, ledger: str, orders: Table, agreed: list[dict[str, Any]], steps: _Steps) -> None:
    print_line("")
    print_table(
        ["table", "version", "rows in the ledger", *(each["reader"] for each in agreed[0]["readers"])],
        [
            (
                each["table"],
                each["version"],
                f"{each['rows']:,}",
                *(f"{reader['rows']:,} {'✓' if reader['agree'] else '✗'}" for reader in each["readers"]),
            )
            for each in agreed
        ],
    )
    print_line("")
    print_line(f"Done in {sum(seconds for _, seconds in steps.taken):.0f} s. What to type next:")
    # As it was called: in a fresh clone the command is not on the PATH.
    command = "deltasql" if shutil.which("deltasql") else os.path.relpath(sys.argv[0])
    print_line(f"  export DELTASQL_LEDGER={ledger}")
    print_line(f"  {command} table list")
    print_line(f"  {command} table history shop.orders")
    print_line(f"  {command} show shop.orders 1")
    print_line(f"  {command} mirror status")
    print_line(f"  ls {folder}/warehouse/shop/orders/_delta_log")
    python = os.path.relpath(sys.executable)
    print_line(f"  {python} -c \"import deltalake; print(deltalake.DeltaTable('{orders.location}').history(1))\"")
