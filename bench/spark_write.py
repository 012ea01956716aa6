"""Writing rows from Spark: deltasql beside Delta Spark and bare Parquet, same rows, same codec, same statistics."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa

import deltasql
from bench.measure import alternate, keep, table
from deltasql.cli.demo_readers import with_delta
from deltasql.spark import register
from deltasql.spark.session import spark_session

ROWS = 5_000_000
ROUNDS = 5
SCHEMA = pa.schema(
    [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("day", pa.date32()), ("kind", pa.int32())]
)


def run(name: str, rows: int, rounds: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="deltasql-bench-"))
    try:
        with spark_session("local[*]", "deltasql bench", log=home / "spark.log", configure=with_delta) as spark:
            register(spark)
            ledger = f"sqlite:///{home / 'lake.db'}"
            lake = deltasql.connect(ledger, root=str(home / "warehouse"))
            lake.create_table("t", SCHEMA)
            frame = spark.range(rows).selectExpr(
                "id",
                "id * 0.5D AS amount",
                "concat('customer-', id % 100000) AS name",
                "date_add(DATE'2026-01-01', cast(id % 365 AS int)) AS day",
                "cast(id % 17 AS int) AS kind",
            )

            def parquet(number: int) -> None:
                frame.write.parquet(str(home / f"parquet-{number}"))

            def delta(_: int) -> None:
                frame.write.format("delta").mode("append").save(str(home / "delta"))

            def ours(_: int) -> None:
                frame.write.format("deltasql").option("ledger", ledger).option("table", "t").mode("append").save()

            print(f"Writing {rows:,} rows of {len(SCHEMA)} columns, {rounds} rounds")
            seconds = alternate({"bare Parquet": parquet, "Delta Spark": delta, "deltasql": ours}, rounds)
            written = lake.table("t").to_spark(spark).count()
            assert written == rows * (rounds + 1), written
            lake.close()
        median = {peer: statistics.median(times) for peer, times in seconds.items()}
        ratios = {
            "deltasql / Delta Spark": median["deltasql"] / median["Delta Spark"],
            "deltasql / bare Parquet": median["deltasql"] / median["bare Parquet"],
            "Delta Spark / bare Parquet": median["Delta Spark"] / median["bare Parquet"],
        }
        table(f"Writing {rows:,} rows from Spark (median of {rounds})", seconds, ratios)
        what = f"{rows:,} rows of 5 columns appended from a DataFrame on local[*], snappy, statistics on all columns"
        print(f"kept in {keep(name, what, seconds, ratios, rows=rows).name}")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    # The large one is about throughput, the small one about what a commit costs.
    run("spark_write", ROWS, ROUNDS)
    run("spark_write_small", 1_000, 15)
