"""That the suite runs over every ledger there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltasql.ledger.contracts import Outbox, TxnLogReader, TxnLogWriter
from deltasql.ledger.memory import MemoryOutbox, MemoryTxnLogReader, MemoryTxnLogWriter
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter

pytestmark = pytest.mark.contract

SIDES: dict[type, list[type]] = {
    TxnLogWriter: [SqlTxnLogWriter, MemoryTxnLogWriter],
    TxnLogReader: [SqlTxnLogReader, MemoryTxnLogReader],
    Outbox: [SqlOutbox, MemoryOutbox],
}


def test_every_side_has_every_call_and_no_other() -> None:
    def calls(side: Any) -> set[str]:
        return {name for name, value in vars(side).items() if callable(value) and not name.startswith("_")}

    for protocol, sides in SIDES.items():
        assert len(calls(protocol)) >= 2
        for side in sides:
            assert calls(side) == calls(protocol)


def test_the_suite_runs_over_every_ledger() -> None:
    """Collected anew, so that the answer does not depend on what was selected for this run."""
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", str(folder)]
    collected = subprocess.run(command, capture_output=True, text=True, cwd=folder.parents[2])
    assert collected.returncode == 0, collected.stdout
    cases = Counter(re.findall(r"ledger=(\w+)", collected.stdout))
    assert set(cases) == {"sqlite", "postgresql", "duckdb", "memory"}
    assert min(cases.values()) == max(cases.values()) > 200
    assert set(re.findall(r"shared=(\w+)", collected.stdout)) == {"sqlite", "postgresql", "duckdb"}
