"""Clocks that jump or stand still: the time of a table's versions goes on all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from deltasql.errors import VersionNotFoundError
from deltasql.ledger.contracts import TableEntry
from deltasql.protocol.actions import CommitInfo
from ledger_backends import LedgerUnderTest
from ledger_held import held_open
from ledger_samples import add, creation, draft

pytestmark = pytest.mark.contract

HOUR, DAY = 3_600_000, 86_400_000
NOON = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _held_open(ledger: LedgerUnderTest) -> Iterator[None]:
    with held_open(ledger):
        yield


def times(ledger: LedgerUnderTest, table: TableEntry) -> list[int]:
    """The timestamps of all versions, each found to be the same wherever the ledger tells it."""
    head = ledger.reader.head(table)
    found: list[int] = []
    for commit in ledger.reader.commits(table, 0, head.version):
        info = commit.actions[0]
        assert isinstance(info, CommitInfo)
        assert info.fields["inCommitTimestamp"] == info.fields["timestamp"] == commit.timestamp
        found.append(commit.timestamp)
    assert head.timestamp == found[-1]
    assert [entry.timestamp for entry in ledger.reader.history(table)] == found[::-1]
    assert [status.created_at for status in ledger.outbox.status(table)] == found
    return found


def check_travel(ledger: LedgerUnderTest, table: TableEntry, found: list[int]) -> None:
    """Every instant leads to the newest version not after it, and back."""
    for version, time in enumerate(found):
        assert ledger.reader.version_at(table, time) == version
        assert ledger.reader.state(table, version).timestamp == time
    for version, (time, after) in enumerate(pairwise(found)):
        assert ledger.reader.version_at(table, after - 1) == version
        assert ledger.reader.version_at(table, (time + after) // 2) in (version, version + 1)
    assert ledger.reader.version_at(table, found[-1] + DAY) == len(found) - 1
    with pytest.raises(VersionNotFoundError):
        ledger.reader.version_at(table, found[0] - 1)


def commit_at(ledger: LedgerUnderTest, table: TableEntry, clock: int) -> None:
    ledger.set_clock(clock)
    ledger.append(table, add(f"{ledger.reader.head(table).version}"))


def test_a_clock_that_goes_back_an_hour_does_not_take_time_with_it(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(NOON)
    table = ledger.create()
    for minutes in range(3):
        commit_at(ledger, table, NOON - HOUR + minutes * 60_000)
    # Until the clock has caught up, each commit is a millisecond after the one before.
    commit_at(ledger, table, NOON + 3)
    commit_at(ledger, table, NOON + 60_000)
    found = times(ledger, table)
    assert found == [NOON, NOON + 1, NOON + 2, NOON + 3, NOON + 4, NOON + 60_000]
    check_travel(ledger, table, found)


def test_a_day_too_far_is_never_taken_back(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(NOON)
    table = ledger.create()
    commit_at(ledger, table, NOON + DAY)
    for _ in range(3):
        commit_at(ledger, table, NOON + 1_000)
    found = times(ledger, table)
    assert found == [NOON, NOON + DAY, NOON + DAY + 1, NOON + DAY + 2, NOON + DAY + 3]
    check_travel(ledger, table, found)


def test_a_table_that_was_ahead_does_not_take_others_with_it(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(NOON + DAY)
    ledger.create("ahead")
    ledger.set_clock(NOON)
    table = ledger.create("t")
    commit_at(ledger, table, NOON + 5)
    assert times(ledger, table) == [NOON, NOON + 5]


@pytest.mark.parametrize("number", [50, pytest.param(2_000, marks=pytest.mark.slow)])
def test_while_the_clock_stands_still_each_commit_is_a_millisecond_ahead(ledger: LedgerUnderTest, number: int) -> None:
    """The bound: time is ahead of the clock by at most as many milliseconds as there were commits meanwhile."""
    ledger.set_clock(NOON)
    table = ledger.create()
    for n in range(number):
        ledger.append(table, add(str(n)))
    found = times(ledger, table)
    assert found == list(range(NOON, NOON + number + 1))
    for version in (0, 1, number // 2, number):
        assert ledger.reader.version_at(table, NOON + version) == version
    # As soon as the clock is past them, time is that of the clock again.
    commit_at(ledger, table, NOON + number + 1)
    commit_at(ledger, table, NOON + DAY)
    assert times(ledger, table)[-2:] == [NOON + number + 1, NOON + DAY]


def test_a_transaction_has_one_time_that_is_new_to_all_its_tables(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(NOON)
    tables = [ledger.create(name) for name in ("a", "b", "c")]
    commit_at(ledger, tables[0], NOON + DAY)
    for clock, expected in (
        (NOON - HOUR, NOON + DAY + 1),
        (NOON + 2 * DAY, NOON + 2 * DAY),
        (NOON + 2 * DAY, NOON + 2 * DAY + 1),
    ):
        ledger.set_clock(clock)
        before = [times(ledger, table)[-1] for table in tables]
        results = ledger.commit(*(draft(table.name, add(str(expected))) for table in reversed(tables)))
        assert {result.timestamp for result in results} == {expected}
        assert all(expected > time for time in before)
        assert {times(ledger, table)[-1] for table in tables} == {expected}
    # What is created in a transaction begins with its time.
    created = ledger.commit(draft("a", add("with a new one")), creation("new"))
    assert {result.timestamp for result in created} == {NOON + 2 * DAY + 2}
    for table in tables:
        check_travel(ledger, table, times(ledger, table))


def test_whatever_the_clock_does_time_goes_on(ledger: LedgerUnderTest) -> None:
    chance = random.Random(13)
    ledger.set_clock(NOON)
    tables = [ledger.create(name) for name in ("a", "b", "c")]
    clock = NOON
    for n in range(40):
        clock += chance.choice((-DAY, -HOUR, -1, 0, 0, 1, 7, HOUR, DAY))
        ledger.set_clock(clock)
        chosen = chance.sample(tables, chance.randint(1, 3))
        before = max(ledger.reader.head(table).timestamp for table in chosen)
        results = ledger.commit(*(draft(table.name, add(str(n))) for table in chosen))
        assert {result.timestamp for result in results} == {max(clock, before + 1)}
    for table in tables:
        found = times(ledger, table)
        assert all(earlier < later for earlier, later in pairwise(found))
        check_travel(ledger, table, found)


def test_a_commit_that_is_found_again_keeps_its_time(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(NOON)
    ledger.create()
    (first,) = ledger.commit(draft("t", add("a"), token="job"))
    ledger.set_clock(NOON + DAY)
    (again,) = ledger.commit(draft("t", add("a"), token="job"))
    assert (again.version, again.timestamp) == (first.version, first.timestamp)
