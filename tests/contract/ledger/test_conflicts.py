"""Which commits may be rebased onto what others committed meanwhile, and which may not."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasql.errors import InvalidInputError
from deltasql.ledger.contracts import CommitDraft
from deltasql.outcomes import Committed, Conflict, ConflictReason
from deltasql.protocol.actions import Action
from deltasql.protocol.conflicts import Reads, find_conflict
from ledger_backends import LedgerUnderTest
from ledger_samples import METADATA, PROTOCOL, add, creation, domain, draft, location, paths, remove, txn

pytestmark = pytest.mark.contract

WHOLE = Reads(whole_table=True)
READ_KEPT = Reads(files=frozenset({("kept", "")}))
LOOKS_LIKE_NEW = Reads(may_match=lambda file: file.path.startswith("new"))

# What was committed meanwhile, what the loser reads and writes, and the files that are named.
Case = tuple[ConflictReason, list[Action], Reads, list[Action], tuple[str, ...]]
LOST: dict[str, Case] = {
    "whole table": ("concurrent_append", [add("new-1")], WHOLE, [add("mine")], ("new-1",)),
    "predicate": ("concurrent_append", [add("old-1"), add("new-1")], LOOKS_LIKE_NEW, [add("mine")], ("new-1",)),
    "file read": ("concurrent_delete_read", [remove("kept")], READ_KEPT, [add("mine")], ("kept",)),
    "table read": ("concurrent_delete_read", [remove("kept")], WHOLE, [add("mine")], ("kept",)),
    "same file": ("concurrent_delete_delete", [remove("kept")], Reads(), [remove("kept"), add("mine")], ("kept",)),
    "marked file": (
        "concurrent_delete_delete",
        [remove("kept"), add("kept", "v")],
        Reads(),
        [remove("kept"), add("mine")],
        ("kept",),
    ),
    "metadata": ("metadata_changed", [METADATA], Reads(), [add("mine")], ()),
    "protocol": ("protocol_changed", [PROTOCOL], Reads(), [add("mine")], ()),
    "application": ("concurrent_transaction", [txn("app", 2)], Reads(), [txn("app", 3), add("mine")], ()),
    "domain": ("concurrent_domain", [domain("d")], Reads(), [domain("d", "{1}"), add("mine")], ()),
    "removed domain": ("concurrent_domain", [domain("d", removed=True)], Reads(), [domain("d")], ()),
}


def test_every_reason_has_a_case() -> None:
    assert {case[0] for case in LOST.values()} == set(get_args(ConflictReason))


@pytest.mark.parametrize("name", LOST)
def test_a_lost_race_is_told_and_leaves_nothing(ledger: LedgerUnderTest, name: str) -> None:
    reason, winner, reads, mine, files = LOST[name]
    table = ledger.create("t", add("kept"), add("other"))
    ledger.append(table, add("harmless", data_change=False))
    assert ledger.append(table, *winner) == 2
    ledger.append(table, txn("later"))
    before = ledger.facts()
    outcome = ledger.writer.commit([draft("t", *mine, read_version=0, reads=reads)])
    assert isinstance(outcome, Conflict)
    assert outcome == Conflict(table="t", reason=reason, winning_version=2, files=files, detail=outcome.detail)
    assert outcome.detail
    assert ledger.facts() == before


@pytest.mark.parametrize("name", LOST)
def test_who_has_seen_the_winner_loses_nothing(ledger: LedgerUnderTest, name: str) -> None:
    _, winner, reads, mine, _ = LOST[name]
    table = ledger.create("t", add("kept"), add("other"))
    ledger.append(table, *winner)
    mine = [action for action in mine if action != remove("kept")]
    assert ledger.append(table, *mine, read_version=1, reads=reads) == 2


OTHERS_WORK: list[list[Action]] = [
    [add("new-1"), add("new-2")],
    [remove("kept")],
    [remove("other"), add("other", "v")],
    [txn("app", 2)],
    [domain("d")],
    [],
]


def test_a_blind_append_is_rebased_over_the_work_of_others(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", add("kept"), add("other"))
    for actions in OTHERS_WORK:
        ledger.append(table, *actions)
    version = ledger.append(table, add("mine"), read_version=0)
    assert version == len(OTHERS_WORK) + 1
    assert paths(ledger.reader.files(table, version)) == ["new-1", "new-2", "other", "mine"]


REBASED: dict[str, CommitDraft] = {
    "another application": draft("t", txn("mine"), add("mine")),
    "another domain": draft("t", domain("mine"), add("mine")),
    "another file removed": draft("t", remove("third"), add("mine"), reads=Reads(files=frozenset({("third", "")}))),
    "another predicate": draft("t", add("mine"), reads=Reads(may_match=lambda file: file.path == "elsewhere")),
    "metadata of its own": draft("t", METADATA),
}


@pytest.mark.parametrize("name", REBASED)
def test_what_touches_nothing_of_others_is_rebased(ledger: LedgerUnderTest, name: str) -> None:
    table = ledger.create("t", add("kept"), add("other"), add("third"))
    for actions in OTHERS_WORK:
        ledger.append(table, *actions)
    wanted = REBASED[name]
    rebased = CommitDraft(table="t", actions=wanted.actions, operation="WRITE", reads=wanted.reads, read_version=0)
    assert ledger.commit(rebased)[0].version == len(OTHERS_WORK) + 1


def test_rewritten_rows_are_no_news_to_a_reader_of_the_whole_table(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", add("kept"))
    ledger.append(table, add("compacted", data_change=False))
    assert ledger.append(table, add("mine"), read_version=0, reads=WHOLE) == 2


def test_who_looked_at_nothing_is_never_told_of_a_conflict(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", add("kept"))
    ledger.append(table, METADATA, PROTOCOL, txn("app"), remove("kept"))
    assert ledger.append(table, add("mine"), txn("app"), read_version=None, reads=WHOLE) == 2


def test_a_created_table_has_nobody_to_lose_against(ledger: LedgerUnderTest) -> None:
    (result,) = ledger.commit(creation("t", add("a"), read_version=7, reads=WHOLE, create_at=location("t")))
    assert result.version == 0


ACTIONS: list[Action] = [
    add("a"),
    add("new-1"),
    add("b", data_change=False),
    remove("kept"),
    remove("other"),
    txn("app"),
    txn("app-2"),
    domain("d"),
    domain("d-2", removed=True),
    METADATA,
    PROTOCOL,
]
COMMITS = st.lists(st.sampled_from(ACTIONS), max_size=3, unique_by=str)
READS = st.sampled_from([Reads(), WHOLE, READ_KEPT, LOOKS_LIKE_NEW])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(COMMITS, max_size=4), mine=COMMITS, reads=READS, data=st.data())
def test_the_outcome_is_what_the_rules_say_of_the_recorded_commits(
    ledger: LedgerUnderTest, history: list[list[Action]], mine: list[Action], reads: Reads, data: st.DataObject
) -> None:
    name = f"t{len(ledger.reader.tables())}"
    table = ledger.create(name, add("kept"), add("other"))
    for actions in history:
        try:
            ledger.append(table, *actions)
        except InvalidInputError:
            # It removes what an earlier one has removed.
            continue
    head = ledger.reader.head(table).version
    read_version = data.draw(st.integers(0, head), label="read_version")
    winners = [(commit.version, commit.actions) for commit in ledger.reader.commits(table, read_version + 1, head)]
    expected = find_conflict(name, reads, mine, winners)
    gone = {action.path for action in mine if action in (remove("kept"), remove("other"))} - set(
        paths(ledger.reader.files(table, head))
    )
    try:
        outcome = ledger.writer.commit([draft(name, *mine, read_version=read_version, reads=reads)])
    except InvalidInputError:
        assert expected is None
        assert gone
        assert ledger.reader.head(table).version == head
        return
    if expected is None:
        assert isinstance(outcome, tuple)
        assert outcome == (Committed(table=name, version=head + 1, timestamp=outcome[0].timestamp),)
    else:
        assert outcome == expected
        assert ledger.reader.head(table).version == head
