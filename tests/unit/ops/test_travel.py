"""Time travel by version and by instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from client_samples import MONDAY, ids, rows
from deltasql.client import Table
from deltasql.errors import (
    InvalidInputError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.unit


def test_time_travel_by_version_and_by_instant(table: Table) -> None:
    second = table.append(rows((5, MONDAY, "e")))
    assert ids(table.to_arrow(version=1)) == [1, 2, 3, 4]
    moment = datetime.fromtimestamp(second.timestamp / 1000, UTC)
    assert table.snapshot(timestamp=moment).version == 2
    assert table.snapshot(timestamp=moment.isoformat()).version == 2
    assert table.snapshot(timestamp=moment - timedelta(milliseconds=1)).version == 1
    assert table.snapshot(timestamp=moment + timedelta(days=1)).version == 2


@pytest.mark.parametrize("version", [-1, 3, 2**63 - 1])
def test_versions_outside_the_history_are_refused_with_its_range(table: Table, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="from version 0") as caught:
        table.snapshot(version=version)
    assert caught.value.hint


def test_instants_before_the_first_version_are_refused(table: Table) -> None:
    with pytest.raises(VersionNotFoundError):
        table.snapshot(timestamp="2000-01-01T00:00:00Z")


@pytest.mark.parametrize("timestamp", ["yesterday", "2026-01-01T00:00:00", datetime(2026, 1, 1)])  # noqa: DTZ001
def test_what_is_no_instant_is_refused(table: Table, timestamp: str | datetime) -> None:
    with pytest.raises(InvalidInputError) as caught:
        table.snapshot(timestamp=timestamp)
    assert caught.value.field == "timestamp"


def test_version_and_instant_together_are_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError):
        table.snapshot(version=1, timestamp="2026-01-01T00:00:00Z")
