"""`deltasql mirror once` and `mirror run` on a Spark of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import deltasql

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64())])
COMMAND = [sys.executable, "-m", "deltasql.cli.main", "mirror"]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Two tables of two versions each, nothing published."""
    url = f"sqlite:///{tmp_path}/lake.db"
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        for name in ("a", "b"):
            lake.create_table(name, SCHEMA).append(pa.table({"id": [1]}))
    return url


def test_once_publishes_on_the_master_that_was_named(ledger: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [*COMMAND, "once", "--master", "local[2]", "--json", "--ledger", ledger],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert (found["ok"], found["published"]) == (True, 4)
    for name in ("a", "b"):
        assert deltalake.DeltaTable(tmp_path / "warehouse" / name).version() == 1


def test_run_publishes_on_spark_until_it_is_told_to_end(ledger: str, tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "run", "--master", "local[2]", "--json", "--ledger", ledger],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        first, second = json.loads(running.stdout.readline()), json.loads(running.stdout.readline())
        assert {first["table"], second["table"]} == {"a", "b"}
        with deltasql.connect(ledger) as lake:
            lake.table("a").append(pa.table({"id": [2]}))
        third = json.loads(running.stdout.readline())
        assert (third["event"], third["table"], third["last"]) == ("VersionsPublished", "a", 2)
        assert deltalake.DeltaTable(tmp_path / "warehouse" / "a").version() == 2
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors
    finally:
        running.kill()
        running.communicate()
