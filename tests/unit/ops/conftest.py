"""A lake with stores in memory, and a table with four rows in three partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import deltasql
from client_samples import MONDAY, SCHEMA, TUESDAY, rows
from deltasql.client import Lake, Table


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def lake(ledger: str) -> Iterator[Lake]:
    with deltasql.connect(ledger, root=f"memory://{uuid4()}") as opened:
        yield opened


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("sales.orders", SCHEMA, partition_by=["day"])
    made.append(rows((1, MONDAY, "a"), (2, MONDAY, "b"), (3, TUESDAY, None), (4, None, "d")))
    return made
