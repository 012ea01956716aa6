"""All tables at one instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake
from deltasql.errors import InvalidInputError, TableNotFoundError

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": [1]})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        yield lake


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_every_table_is_as_it_stood_and_later_ones_are_not_there(lake: Lake) -> None:
    lake.create_table("a", ROWS.schema)
    lake.create_table("b", ROWS.schema)
    with lake.transaction() as tx:
        tx.table("a").append(ROWS)
        tx.table("b").append(ROWS)
    both = tx.result[0].timestamp
    lake.table("a").append(ROWS)
    late = lake.create_table("late", ROWS.schema).snapshot().timestamp
    view = lake.as_of(at(both))
    assert {name: snapshot.version for name, snapshot in view.items()} == {"a": 1, "b": 1}
    assert view.table("a").to_arrow().num_rows == 1
    # A moment before, neither has it.
    assert {name: snapshot.version for name, snapshot in lake.as_of(at(both - 1)).items()} == {"a": 0, "b": 0}
    with pytest.raises(TableNotFoundError) as caught:
        view.table("late")
    assert caught.value.field == "table"
    assert sorted(lake.as_of(at(late))) == ["a", "b", "late"]
    assert len(lake.as_of(at(0))) == 0


def test_an_instant_has_a_zone(lake: Lake) -> None:
    with pytest.raises(InvalidInputError):
        lake.as_of("2024-01-01T00:00:00")
