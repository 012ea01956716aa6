"""`deltasql mirror run`: publishes what is committed while it runs, and ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import deltasql

pytestmark = pytest.mark.e2e

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/lake.db"
    with deltasql.connect(url, root=str(tmp_path / "warehouse")) as lake:
        lake.create_table("t", SCHEMA)
    return url


@pytest.fixture
def running(ledger: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "deltasql.cli.main", "mirror", "run", "--in-process", "--json"]
    process = subprocess.Popen(
        [*words, "--interval", "0.02", "--ledger", ledger], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def next_event(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    event = json.loads(line)
    assert event.pop("at")
    return event


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_commits_are_published_while_it_runs_and_a_signal_ends_it(
    running: subprocess.Popen[str], ledger: str, ending: signal.Signals
) -> None:
    first = next_event(running)
    assert (first["event"], first["table"], first["last"]) == ("VersionsPublished", "t", 0)
    with deltasql.connect(ledger) as lake:
        table = lake.table("t")
        for number in range(1, 4):
            table.append(pa.table({"id": [number]}))
            published = next_event(running)
            assert (published["event"], published["last"]) == ("VersionsPublished", number)
            assert deltalake.DeltaTable(table.location).version() == number
    running.send_signal(ending)
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")


def test_a_foreign_commit_is_told_and_does_not_end_it(running: subprocess.Popen[str], ledger: str) -> None:
    next_event(running)
    with deltasql.connect(ledger) as lake:
        table = lake.table("t")
        log = Path(table.location.removeprefix("file://")) / "_delta_log"
        (log / f"{1:020d}.json").write_text("{}")
        table.append(pa.table({"id": [1]}))
        event = next_event(running)
        assert (event["event"], event["version"]) == ("TableQuarantined", 1)
    assert running.poll() is None


def test_two_ways_at_once_are_wrong_use(ledger: str) -> None:
    words = [sys.executable, "-m", "deltasql.cli.main", "mirror", "run", "--in-process", "--master", "local[1]"]
    answer = subprocess.run([*words, "--ledger", ledger], capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 2
    assert "--in-process" in answer.stderr
