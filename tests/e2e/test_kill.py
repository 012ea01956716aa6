"""A real SIGKILL between commit, PUT and status update: a restart completes, and nothing is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.protocol.jsonlog import sha256

pytestmark = pytest.mark.e2e

SCHEMA = pa.schema([("id", pa.int64())])

# Commits with a token, as a careful writer would, then publishes.
WRITER = """
import sys
import deltasql
from deltasql.protocol.actions import AddFile

ledger = sys.argv[1]
lake = deltasql.connect(ledger)
table = lake.table("t")
add = AddFile(path="data.parquet", size=int(sys.argv[2]), modification_time=1, data_change=True,
              stats='{"numRecords":3}')
print(table.commit([add], token="the-one-commit").version, flush=True)
report = lake.mirror()
table.checkpoint()
print(report.ok, flush=True)
"""

# In the order a commit passes them on its way to the log.
FAULT_POINTS = [
    "after_head_moved",
    "before_sql_commit",
    "after_sql_commit",
    "before_put",
    "after_put",
    "before_status",
    "after_status",
    "after_checkpoint",
]


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[str, int]:
    """A ledger with a table at version 0, unpublished, and a data file that no version knows yet."""
    ledger = f"sqlite:///{tmp_path}/lake.db"
    with deltasql.connect(ledger, root=str(tmp_path / "warehouse")) as lake:
        lake.create_table("t", SCHEMA)
    folder = tmp_path / "warehouse" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}, schema=SCHEMA), folder / "data.parquet")
    return ledger, (folder / "data.parquet").stat().st_size


def run_writer(ledger: str, size: int, failpoint: str | None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment.pop("DELTASQL_FAILPOINT", None)
    if failpoint is not None:
        environment["DELTASQL_FAILPOINT"] = f"{failpoint}:kill"
    return subprocess.run(
        [sys.executable, "-c", WRITER, ledger, str(size)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("failpoint", FAULT_POINTS)
def test_a_killed_writer_is_completed_by_a_restart(prepared: tuple[str, int], failpoint: str) -> None:
    ledger, size = prepared
    killed = run_writer(ledger, size, failpoint)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    with deltasql.connect(ledger) as lake:
        table = lake.table("t")
        committed = table.version
        # Commit and debt are inseparable: a version is there with its outbox row, or not at all.
        assert [status.version for status in table.mirror_status()] == list(range(committed + 1))
        log = Path(table.location.removeprefix("file://")) / "_delta_log"
        published = sorted(path.name for path in log.glob("*.json"))
        assert published == [f"{version:020d}.json" for version in range(len(published))]
        assert len(published) <= committed + 1

    restarted = run_writer(ledger, size, None)
    assert (restarted.returncode, restarted.stdout.split()) == (0, ["1", "True"]), restarted.stderr

    with deltasql.connect(ledger) as lake:
        table = lake.table("t")
        assert table.version == 1
        assert table.snapshot().files().num_rows == 1
        assert [status.state for status in table.mirror_status()] == ["SUCCESS", "SUCCESS"]
        for status in table.mirror_status():
            data = (log / f"{status.version:020d}.json").read_bytes()
            assert sha256(data) == status.sha256
        assert sorted(path.name for path in log.glob("*.json")) == [f"{version:020d}.json" for version in (0, 1)]
        read = deltalake.DeltaTable(table.location)
        assert read.version() == 1
        assert sorted(pa.table(read.to_pyarrow_table()).column("id").to_pylist()) == [1, 2, 3]


def test_every_fault_point_of_the_product_is_killed_at() -> None:
    package = Path(deltasql.__file__).parent
    named = {
        line.split('failpoint("')[1].split('"')[0]
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if 'failpoint("' in line and path.name != "failpoints.py"
    }
    assert named == set(FAULT_POINTS)
