"""What only a SQL outbox can meet: leases of processes elsewhere, and rows that are not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import add, creation, draft

pytestmark = pytest.mark.unit


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield ledger
    ledger.close()


@pytest.fixture
def table(ledger: Ledger) -> TableEntry:
    """A table of four versions, none of them published."""
    writer = SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    for n in range(3):
        writer.commit([draft("t", add(str(n)))])
    return SqlTxnLogReader(ledger).table("t")


def test_what_stands_above_a_gap_waits(ledger: Ledger, table: TableEntry) -> None:
    with ledger.write() as session:
        session.change("DELETE FROM dl_mirror_status WHERE version = 2")
    assert SqlOutbox(ledger).unpublished(table, 10) == [0, 1]


def test_a_process_that_may_not_be_asked_is_alive(
    ledger: Ledger, table: TableEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    assert SqlOutbox(ledger).acquire(table, 3600) is not None
    monkeypatch.setattr(os, "kill", refuse)
    assert SqlOutbox(ledger).acquire(table, 3600) is None


def test_a_process_of_another_host_is_believed_until_its_lease_ends(
    ledger: Ledger, table: TableEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(_pid: int, _signal: int) -> None:
        raise ProcessLookupError

    assert SqlOutbox(ledger).acquire(table, 3600) is not None
    monkeypatch.setattr(os, "kill", dead)
    with ledger.write() as session:
        session.change("UPDATE dl_leases SET host = 'elsewhere'")
    assert SqlOutbox(ledger).acquire(table, 3600) is None
    with ledger.write() as session:
        session.change("UPDATE dl_leases SET expires_at = 1")
    lease = SqlOutbox(ledger).acquire(table, 3600)
    assert lease is not None
    assert lease.fence == 2
