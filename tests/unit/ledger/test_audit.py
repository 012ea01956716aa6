"""Who did what: commits know their author, and what an operator decides is written down with it."""

from __future__ import annotations

import getpass
import socket

import pytest

from deltasql.ledger.audit import AuditEntry, SqlAudit, record_act, this_actor
from deltasql.ledger.engine import Ledger
from deltasql.ledger.writer import SqlTxnLogWriter
from ledger_samples import METADATA, PROTOCOL, add, creation, draft, found, location

pytestmark = pytest.mark.unit


def db_user(kind: str) -> str | None:
    """Who the database says it was; only one of them knows its users."""
    return "postgres" if kind == "postgresql" else None


def told(entries: list[AuditEntry]) -> list[tuple[str, str | None, int | None, str]]:
    return [(entry.action, entry.table, entry.version, entry.actor) for entry in entries]


def test_a_commit_knows_who_made_it(kind: str, ledger: Ledger) -> None:
    SqlTxnLogWriter(ledger, "ada").commit([creation("t"), creation("u")])
    SqlTxnLogWriter(ledger, "grace").commit([draft("t", add("a"))])
    with ledger.read() as session:
        rows = session.rows("SELECT version, committed_by, db_user FROM dl_table_versions ORDER BY version, table_id")
    user = db_user(kind)
    assert [tuple(row) for row in rows] == [(0, "ada", user), (0, "ada", user), (1, "grace", user)]
    entries = SqlAudit(ledger, "").entries()
    assert told(entries)[0] == ("commit", "t", 1, "grace")
    assert sorted(told(entries)[1:]) == [("commit", "t", 0, "ada"), ("commit", "u", 0, "ada")]
    assert {entry.db_user for entry in entries} == {user}
    assert entries[0].at > entries[1].at == entries[2].at


def test_a_commit_that_nobody_signs_is_there_too(ledger: Ledger) -> None:
    SqlTxnLogWriter(ledger).commit([creation("t")])
    assert told(SqlAudit(ledger, "ada").entries()) == [("commit", "t", 0, "")]


def test_an_adoption_is_one_act_whatever_it_brings(kind: str, ledger: Ledger) -> None:
    history = [found(0, PROTOCOL, METADATA, timestamp=1), found(1, add("a"), timestamp=2)]
    SqlTxnLogWriter(ledger, "ada").adopt("old", location("old"), history)
    (entry,) = SqlAudit(ledger, "").entries()
    assert told([entry]) == [("adopt", "old", 1, "ada")]
    assert entry.detail == {"location": location("old")}
    assert entry.db_user == db_user(kind)
    with ledger.read() as session:
        assert {row[0] for row in session.rows("SELECT committed_by FROM dl_table_versions")} == {"ada"}


def test_an_adoption_that_fails_is_no_act(ledger: Ledger) -> None:
    history = [found(0, PROTOCOL, METADATA, timestamp=1)]
    writer = SqlTxnLogWriter(ledger, "ada")
    writer.adopt("old", location("old"), history)
    with pytest.raises(Exception, match="old"):
        writer.adopt("old", location("elsewhere"), history)
    assert len(SqlAudit(ledger, "").entries()) == 1


def test_acts_come_newest_first(ledger: Ledger) -> None:
    audit = SqlAudit(ledger, "ada")
    for number in range(5):
        ledger.dialect.clock = str(1_000 + number)
        audit.record("rebuild", "t" if number % 2 else "u", number, files=number, note="it's 100 %")
    entries = audit.entries()
    assert told(entries) == [("rebuild", "t" if n % 2 else "u", n, "ada") for n in (4, 3, 2, 1, 0)]
    assert [entry.at for entry in entries] == [1_004, 1_003, 1_002, 1_001, 1_000]
    assert entries[0].detail == {"files": 4, "note": "it's 100 %"}


def test_commits_stand_among_the_acts(ledger: Ledger) -> None:
    audit, writer = SqlAudit(ledger, "ada"), SqlTxnLogWriter(ledger, "grace")
    ledger.dialect.clock = "1000"
    writer.commit([creation("t")])
    ledger.dialect.clock = "2000"
    audit.record("vacuum", "t")
    ledger.dialect.clock = "3000"
    writer.commit([draft("t", add("a"))])
    ledger.dialect.clock = "4000"
    audit.record("rebuild")
    assert told(audit.entries()) == [
        ("rebuild", None, None, "ada"),
        ("commit", "t", 1, "grace"),
        ("vacuum", "t", None, "ada"),
        ("commit", "t", 0, "grace"),
    ]
    assert told(audit.entries(limit=2)) == [("rebuild", None, None, "ada"), ("commit", "t", 1, "grace")]


def test_a_table_has_its_own_acts(ledger: Ledger) -> None:
    audit, writer = SqlAudit(ledger, "ada"), SqlTxnLogWriter(ledger, "grace")
    writer.commit([creation("t"), creation("u")])
    audit.record("vacuum", "u")
    audit.record("set root")
    assert told(audit.entries(table="t")) == [("commit", "t", 0, "grace")]
    assert sorted(told(audit.entries(table="u"))) == [("commit", "u", 0, "grace"), ("vacuum", "u", None, "ada")]
    assert audit.entries(table="nobody") == []
    assert len(audit.entries()) == 4


def test_no_more_acts_are_shown_than_asked_for(ledger: Ledger) -> None:
    audit, writer = SqlAudit(ledger, "ada"), SqlTxnLogWriter(ledger)
    writer.commit([creation("t")])
    for number in range(7):
        writer.commit([draft("t", add(str(number)))])
        audit.record("look", "t")
    every = audit.entries(limit=1000)
    assert len(every) == 15
    for limit in (1, 2, 8, 15):
        assert [entry.at for entry in audit.entries(limit=limit)] == [entry.at for entry in every[:limit]]
        assert [entry.at for entry in audit.entries("t", limit)] == [entry.at for entry in every[:limit]]


def test_an_act_stands_or_falls_with_what_it_is_about(ledger: Ledger) -> None:
    def act_and_fail() -> None:
        with ledger.write() as session:
            record_act(session, AuditEntry(action="lift", actor="ada"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        act_and_fail()
    assert SqlAudit(ledger, "").entries() == []


def test_the_actor_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTASQL_ACTOR", "nightly job")
    assert this_actor() == "nightly job"


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "absent"])
def test_without_a_name_it_is_the_user_of_the_system(monkeypatch: pytest.MonkeyPatch, empty: bool) -> None:
    monkeypatch.setenv("DELTASQL_ACTOR", "")
    if not empty:
        monkeypatch.delenv("DELTASQL_ACTOR")
    monkeypatch.setenv("LOGNAME", "ada")
    assert this_actor() == f"ada@{socket.gethostname()}"


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.delenv("DELTASQL_ACTOR", raising=False)
    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert this_actor() == f"4711@{socket.gethostname()}"
