"""Executors in processes of their own, one of them killed in the middle of a write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64())])

# Runs beside the tests' own session: a cluster on this machine, with one process for each of two executors. The task
# of partition 1 kills its executor, the JVM above the Python worker, after the rows of its first try were handed over.
JOB = """
import json, os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf
import deltasql.spark

ledger, marker = sys.argv[1], Path(sys.argv[2])
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.local.dir", sys.argv[3])
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
deltasql.spark.register(spark)


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@udf("long")
def deadly(number):
    if number == 999:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return number
        pid = os.getpid()
        while "java" not in os.readlink(f"/proc/{pid}/exe"):
            pid = parent(pid)
        os.kill(pid, signal.SIGKILL)
    return number


frame = spark.range(0, 1000, 1, 2).select(deadly(col("id")).alias("id"))
frame.write.format("deltasql").option("ledger", ledger).option("table", "t").mode("append").save()
print(json.dumps({"executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1}))
spark.stop()
"""


def test_a_killed_executor_commits_nothing_twice(tmp_path: Path) -> None:
    ledger, marker = f"sqlite:///{tmp_path}/lake.db", tmp_path / "killed"
    with deltasql.connect(ledger, root=str(tmp_path / "warehouse")) as lake:
        table = lake.create_table("t", SCHEMA)
        job = subprocess.run(
            [sys.executable, "-c", JOB, ledger, str(marker), str(tmp_path / "local")],
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert job.returncode == 0, job.stderr[-2000:]
        assert json.loads(job.stdout.splitlines()[-1])["executors"] >= 1
        assert marker.exists(), "no executor was killed"
        assert table.version == 1
        assert sorted(table.to_arrow().column("id").to_pylist()) == list(range(1000))
        assert lake.mirror().ok
        # Whatever the dead executor left behind belongs to no version.
        kept = set(table.snapshot().files().column("path").to_pylist())
        assert kept.isdisjoint(left.path for left in table.leftovers(older_than=timedelta(0)))
