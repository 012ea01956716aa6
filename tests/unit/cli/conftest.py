"""The command line in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_samples import SCHEMA, Answer, Deltasql, write_orders
from deltasql.cli.main import main


@pytest.fixture
def deltasql(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deltasql:
    """The command, in an empty folder, with a ledger that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTASQL_LEDGER", "sqlite:///lake.db")
    monkeypatch.delenv("DELTASQL_DEBUG", raising=False)

    def run(*words: str) -> Answer:
        code = main(words)
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def lake(deltasql: Deltasql, tmp_path: Path) -> Deltasql:
    """The command, with a ledger and a table of one append."""
    assert deltasql("init", "--root", "warehouse").code == 0
    assert deltasql("table", "create", "t", "--schema", SCHEMA, "--partition-by", "day").code == 0
    assert deltasql("table", "append", "t", str(write_orders(tmp_path / "orders.parquet"))).code == 0
    return deltasql
