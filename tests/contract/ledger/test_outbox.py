"""The outbox: what is to be published, who may do it, and how it went."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from deltasql.errors import InvalidInputError, LedgerBusyError
from deltasql.ledger.contracts import Lease, MirrorHead, MirrorState, Outbox, TableEntry
from deltasql.ledger.outbox import MAX_ERROR_TEXT
from ledger_backends import LedgerUnderTest
from ledger_samples import add, draft

pytestmark = pytest.mark.contract

NEW = MirrorHead(published_version=-1, checkpoint_version=None, quarantined_version=None, quarantine_reason=None)


@pytest.fixture
def table(ledger: LedgerUnderTest) -> TableEntry:
    """A table of five versions, none of them published."""
    ledger.set_clock(1_000)
    table = ledger.create()
    for n in range(4):
        ledger.append(table, add(str(n)))
    return table


def hold(outbox: Outbox, table: TableEntry, seconds: float = 10) -> Lease:
    lease = outbox.acquire(table, seconds)
    assert lease is not None
    return lease


def states(ledger: LedgerUnderTest, table: TableEntry) -> list[MirrorState]:
    return [status.state for status in ledger.outbox.status(table)]


# -- debts ----------------------------------------------------------------------------------------------------------


def test_every_commit_leaves_a_debt(ledger: LedgerUnderTest, table: TableEntry) -> None:
    assert ledger.outbox.mirror_head(table) == NEW
    assert ledger.outbox.unpublished(table, 100) == [0, 1, 2, 3, 4]
    assert ledger.outbox.unpublished(table, 2) == [0, 1]
    assert ledger.outbox.unpublished(table, 0) == []
    first, *_ = statuses = ledger.outbox.status(table)
    assert [status.version for status in statuses] == [0, 1, 2, 3, 4]
    assert (first.state, first.attempts, first.created_at) == ("PENDING", 0, 1_000)
    assert (first.attempted_at, first.published_at, first.error_class, first.error) == (None, None, None, None)
    (commit,) = ledger.reader.commits(table, 0, 0)
    assert (first.bytes, first.sha256) == (len(commit.encode() or b""), commit.sha256)


def test_tables_that_owe_are_named(ledger: LedgerUnderTest, table: TableEntry) -> None:
    paid, other = ledger.create("paid"), ledger.create("other")
    lease = hold(ledger.outbox, paid)
    ledger.outbox.mark_published(paid, lease, [0])
    assert ledger.outbox.tables_owing() == [other, table]
    ledger.outbox.mark_failed(other, 0, "transient", "503")
    assert ledger.outbox.tables_owing() == [other, table]


def test_what_is_published_is_no_debt_any_more(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table)
    ledger.set_clock(2_000)
    ledger.outbox.mark_published(table, lease, [0, 1])
    ledger.set_clock(3_000)
    ledger.outbox.mark_published(table, lease, [2])
    assert ledger.outbox.unpublished(table, 100) == [3, 4]
    assert ledger.outbox.mirror_head(table).published_version == 2
    assert states(ledger, table) == ["SUCCESS", "SUCCESS", "SUCCESS", "PENDING", "PENDING"]
    assert [status.version for status in ledger.outbox.status(table, unpublished_only=True)] == [3, 4]
    second, third = ledger.outbox.status(table)[1:3]
    assert (second.attempts, second.attempted_at, second.published_at) == (1, 2_000, 2_000)
    assert third.published_at == 3_000


def test_a_failure_is_kept_until_the_version_is_published(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table)
    ledger.set_clock(2_000)
    ledger.outbox.mark_failed(table, 0, "transient", "first")
    ledger.outbox.mark_failed(table, 0, "auth", "x" * (MAX_ERROR_TEXT + 1))
    failed = ledger.outbox.status(table)[0]
    assert (failed.state, failed.attempts, failed.attempted_at, failed.published_at) == ("FAILED", 2, 2_000, None)
    assert (failed.error_class, failed.error) == ("auth", "x" * MAX_ERROR_TEXT)
    assert ledger.outbox.unpublished(table, 2) == [0, 1]
    ledger.outbox.mark_published(table, lease, [0])
    done = ledger.outbox.status(table)[0]
    assert (done.state, done.attempts, done.error_class, done.error) == ("SUCCESS", 3, None, None)


def test_a_failure_after_success_or_of_no_version_is_nothing(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table)
    ledger.outbox.mark_published(table, lease, [0])
    before = ledger.facts()
    ledger.outbox.mark_failed(table, 0, "transient", "too late")
    ledger.outbox.mark_failed(table, 99, "transient", "never committed")
    assert ledger.facts() == before


@pytest.mark.parametrize("versions", [[], [0, 2], [1, 0], [0, 0], [0, 1, 2, 3, 4, 5], [5]], ids=str)
def test_only_a_run_of_committed_versions_is_called_published(
    ledger: LedgerUnderTest, table: TableEntry, versions: list[int]
) -> None:
    lease = hold(ledger.outbox, table)
    if versions == [5]:
        ledger.outbox.mark_published(table, lease, [0, 1, 2, 3, 4])
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.outbox.mark_published(table, lease, versions)
    assert caught.value.field == "versions"
    assert ledger.facts() == before


@pytest.mark.parametrize("versions", [[1], [2, 3], [0]], ids=str)
def test_versions_are_published_in_order(ledger: LedgerUnderTest, table: TableEntry, versions: list[int]) -> None:
    lease = hold(ledger.outbox, table)
    if versions == [0]:
        ledger.outbox.mark_published(table, lease, [0])
    before = ledger.facts()
    with pytest.raises(LedgerBusyError):
        ledger.outbox.mark_published(table, lease, versions)
    assert ledger.facts() == before


def test_each_table_has_debts_of_its_own(ledger: LedgerUnderTest, table: TableEntry) -> None:
    other = ledger.create("other")
    ledger.outbox.mark_published(other, hold(ledger.outbox, other), [0])
    ledger.outbox.quarantine(other, 1, "foreign")
    assert ledger.outbox.mirror_head(table) == NEW
    assert ledger.outbox.unpublished(other, 9) == []
    assert len(ledger.outbox.unpublished(table, 9)) == 5


# -- leases ---------------------------------------------------------------------------------------------------------


def test_one_publisher_at_a_time(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table, 10)
    assert (lease.table_id, lease.fence, lease.seconds) == (table.table_id, 1, 10)
    assert ledger.other_outbox.acquire(table, 10) is None
    assert ledger.outbox.acquire(table, 10) is None
    other = ledger.create("other")
    assert ledger.other_outbox.acquire(other, 10) is not None


def test_of_many_at_once_one_gets_the_lease(ledger: LedgerUnderTest, table: TableEntry) -> None:
    start = Barrier(8)

    def race(number: int) -> Lease | None:
        start.wait()
        return (ledger.outbox if number % 2 else ledger.other_outbox).acquire(table, 10)

    with ThreadPoolExecutor(8) as pool:
        leases = [lease for lease in pool.map(race, range(8)) if lease is not None]
    assert len(leases) == 1


def test_a_lease_ends_when_it_is_given_back(ledger: LedgerUnderTest, table: TableEntry) -> None:
    first = hold(ledger.outbox, table)
    ledger.outbox.release(first)
    second = hold(ledger.other_outbox, table)
    assert second.fence == first.fence + 1
    # Giving back what one no longer has takes nothing from the other.
    ledger.outbox.release(first)
    assert ledger.outbox.acquire(table, 10) is None
    ledger.other_outbox.mark_published(table, second, [0])


def test_a_lease_ends_with_its_time(ledger: LedgerUnderTest, table: TableEntry) -> None:
    first = hold(ledger.outbox, table, 2.5)
    ledger.set_clock(1_000 + 2_499)
    assert ledger.other_outbox.acquire(table, 10) is None
    ledger.set_clock(1_000 + 2_500)
    second = hold(ledger.other_outbox, table)
    assert second.fence == first.fence + 1


def test_a_publisher_that_goes_on_keeps_its_lease(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table, 10)
    ledger.set_clock(9_000)
    ledger.outbox.mark_published(table, lease, [0])
    ledger.set_clock(18_999)
    assert ledger.other_outbox.acquire(table, 10) is None
    ledger.set_clock(19_000)
    # Late, but nobody else has come.
    ledger.outbox.mark_published(table, lease, [1])
    assert ledger.other_outbox.acquire(table, 10) is None


def test_who_lost_the_lease_moves_nothing(ledger: LedgerUnderTest, table: TableEntry) -> None:
    first = hold(ledger.outbox, table, 1)
    ledger.set_clock(100_000)
    second = hold(ledger.other_outbox, table, 1)
    before = ledger.facts()
    with pytest.raises(LedgerBusyError, match="took over"):
        ledger.outbox.mark_published(table, first, [0])
    assert ledger.facts() == before
    ledger.other_outbox.mark_published(table, second, [0])
    assert ledger.outbox.mirror_head(table).published_version == 0


def test_who_gave_the_lease_back_moves_nothing(ledger: LedgerUnderTest, table: TableEntry) -> None:
    lease = hold(ledger.outbox, table)
    ledger.outbox.release(lease)
    before = ledger.facts()
    with pytest.raises(LedgerBusyError):
        ledger.outbox.mark_published(table, lease, [0])
    assert ledger.facts() == before
    assert ledger.other_outbox.acquire(table, 10) is not None


HOLDER = """
import sys
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
ledger = open_ledger(sys.argv[1])
lease = SqlOutbox(ledger).acquire(SqlTxnLogReader(ledger).table("t"), 3600)
print("held", lease.holder, lease.fence, flush=True)
sys.stdin.readline()
"""


def test_a_dead_process_holds_nothing(shared_ledger: LedgerUnderTest) -> None:
    table = shared_ledger.create()
    assert shared_ledger.url is not None
    command = [sys.executable, "-c", HOLDER, shared_ledger.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        word, holder, fence = process.stdout.readline().split()
        assert word == "held"
        assert shared_ledger.outbox.acquire(table, 10) is None
        process.kill()
    lease = hold(shared_ledger.outbox, table)
    assert lease.fence == int(fence) + 1
    lost = Lease(table_id=table.table_id, holder=holder, fence=int(fence), seconds=3600)
    with pytest.raises(LedgerBusyError):
        shared_ledger.outbox.mark_published(table, lost, [0])
    shared_ledger.outbox.mark_published(table, lease, [0])


# -- checkpoints and quarantine ---------------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_never_replaced_by_an_older_one(ledger: LedgerUnderTest, table: TableEntry) -> None:
    for version, expected in ((2, 2), (1, 2), (2, 2), (4, 4), (0, 4)):
        ledger.outbox.mark_checkpoint(table, version)
        assert ledger.outbox.mirror_head(table).checkpoint_version == expected


def test_quarantine_stays_as_it_was_found_until_it_is_lifted(ledger: LedgerUnderTest, table: TableEntry) -> None:
    assert not ledger.outbox.mirror_head(table).quarantined
    ledger.outbox.quarantine(table, 3, "r" * (MAX_ERROR_TEXT + 1))
    ledger.outbox.quarantine(table, 4, "a second look")
    head = ledger.outbox.mirror_head(table)
    assert head.quarantined
    assert (head.quarantined_version, head.quarantine_reason) == (3, "r" * MAX_ERROR_TEXT)
    for _ in range(2):
        ledger.outbox.lift_quarantine(table)
        assert ledger.outbox.mirror_head(table) == NEW
    ledger.outbox.quarantine(table, 0, "again")
    assert ledger.outbox.mirror_head(table).quarantined_version == 0


def test_a_quarantined_table_takes_commits(ledger: LedgerUnderTest, table: TableEntry) -> None:
    ledger.outbox.quarantine(table, 0, "foreign")
    assert ledger.commit(draft("t", add("x")))[0].version == 5
    assert ledger.outbox.unpublished(table, 9) == [0, 1, 2, 3, 4, 5]
