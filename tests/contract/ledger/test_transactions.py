"""Transactions over many tables stand or fall whole; a token finds what an earlier try came to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import orjson
import pytest

from deltasql.errors import DeltaSqlError, InvalidInputError, TableExistsError, TableNotFoundError
from deltasql.ledger.contracts import CommitDraft
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import CommitInfo
from ledger_backends import LedgerUnderTest
from ledger_samples import METADATA, PROTOCOL, add, creation, draft, location, remove

pytestmark = pytest.mark.contract


def infos(ledger: LedgerUnderTest, results: tuple[Committed, ...]) -> list[CommitInfo]:
    found: list[CommitInfo] = []
    for result in results:
        (commit,) = ledger.reader.commits(ledger.reader.table(result.table), result.version, result.version)
        first = commit.actions[0]
        assert isinstance(first, CommitInfo)
        found.append(first)
    return found


def test_the_commits_of_a_transaction_know_each_other(ledger: LedgerUnderTest) -> None:
    ledger.append(ledger.create("a"), add("x"))
    ledger.create("b")
    results = ledger.commit(draft("b", add("y")), draft("a", add("y")), creation("c"))
    assert [(result.table, result.version, result.replayed) for result in results] == [
        ("b", 1, False),
        ("a", 2, False),
        ("c", 0, False),
    ]
    (group_id,) = {result.group_id for result in results}
    assert group_id
    for info in infos(ledger, results):
        assert info.fields["txnId"] == group_id
        assert info.fields["tags"]["deltasql.groupId"] == group_id
        assert orjson.loads(info.fields["tags"]["deltasql.participants"]) == {"b": 1, "a": 2, "c": 0}


def test_a_commit_on_its_own_belongs_to_no_group(ledger: LedgerUnderTest) -> None:
    results = ledger.commit(creation("a"))
    assert results[0].group_id is None
    assert "tags" not in infos(ledger, results)[0].fields


def test_two_transactions_are_two_groups(ledger: LedgerUnderTest) -> None:
    first = ledger.commit(creation("a"), creation("b"))
    second = ledger.commit(draft("a", add("x")), draft("b", add("x")))
    assert first[0].group_id != second[0].group_id


def test_two_commits_to_one_table_are_no_transaction(ledger: LedgerUnderTest) -> None:
    ledger.create("a")
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit([draft("a", add("x")), draft("a", add("y"))])
    assert caught.value.field == "table"
    assert ledger.facts() == before


FAILING: dict[str, tuple[CommitDraft, type[DeltaSqlError]]] = {
    "a file that is not there": (draft("b", remove("never")), InvalidInputError),
    "a table that is not there": (draft("nowhere", add("y")), TableNotFoundError),
    "a table that is there": (creation("b", create_at=location("new")), TableExistsError),
    "a location that is taken": (creation("d", create_at=location("b")), TableExistsError),
    "the location of another draft": (creation("d", create_at=location("c")), TableExistsError),
    "a version that was not read": (draft("b", add("y"), read_version=9), InvalidInputError),
    "parameters that are no JSON": (draft("b", add("y"), parameters={"p": object()}), InvalidInputError),
}


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("name", FAILING)
def test_one_failing_commit_takes_all_others_with_it(ledger: LedgerUnderTest, name: str, first: bool) -> None:
    ledger.create("a", add("x"))
    ledger.create("b", add("x"))
    before = ledger.facts()
    bad, error = FAILING[name]
    good = [draft("a", add("y"), remove("x")), creation("c")]
    with pytest.raises(error):
        ledger.writer.commit([bad, *good] if first else [*good, bad])
    assert ledger.facts() == before
    assert [result.version for result in ledger.commit(*good)] == [1, 0]


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_one_lost_race_takes_all_others_with_it(ledger: LedgerUnderTest, first: bool) -> None:
    ledger.create("a", add("x"))
    ledger.append(ledger.create("b"), METADATA)
    before = ledger.facts()
    lost = draft("b", add("y"), read_version=0)
    good = [draft("a", add("y"), remove("x"), read_version=0), creation("c")]
    outcome = ledger.writer.commit([lost, *good] if first else [*good, lost])
    assert isinstance(outcome, Conflict)
    assert (outcome.table, outcome.reason, outcome.winning_version) == ("b", "metadata_changed", 1)
    assert ledger.facts() == before


# -- tokens ---------------------------------------------------------------------------------------------------------


def again(results: tuple[Committed, ...]) -> tuple[Committed, ...]:
    return tuple(msgspec.structs.replace(result, replayed=True) for result in results)


def test_a_token_finds_the_first_try(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    first = ledger.commit(draft("t", add("a"), token="job-1"))
    ledger.append(table, add("b"))
    before = ledger.facts()
    for _ in range(2):
        assert ledger.writer.commit([draft("t", add("a"), token="job-1")]) == again(first)
    assert ledger.facts() == before


def test_a_token_is_answered_before_anything_is_judged(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", add("a"))
    drafts = [draft("t", remove("a"), read_version=0, token="job-1")]
    first = ledger.commit(*drafts)
    ledger.append(table, METADATA)
    # By now the file is gone, and the metadata is not the one that was read.
    assert ledger.writer.commit(drafts) == again(first)


def test_a_token_finds_the_creation_of_a_table(ledger: LedgerUnderTest) -> None:
    first = ledger.commit(creation("t", token="job-1"))
    ledger.append(ledger.reader.table("t"), add("a"))
    assert ledger.writer.commit([creation("t", token="job-1")]) == again(first)
    with pytest.raises(TableExistsError):
        ledger.writer.commit([creation("t", token="job-2")])
    with pytest.raises(TableExistsError):
        ledger.writer.commit([creation("t")])


def test_a_token_finds_a_whole_transaction(ledger: LedgerUnderTest) -> None:
    ledger.create("a")
    drafts = [draft("a", add("x"), token="job-1"), creation("b", token="job-1")]
    first = ledger.commit(*drafts)
    before = ledger.facts()
    assert first[0].group_id is not None
    assert ledger.writer.commit(drafts) == again(first)
    assert ledger.writer.commit(drafts[::-1]) == again(first[::-1])
    assert ledger.facts() == before


def test_a_token_that_failed_may_be_used_again(ledger: LedgerUnderTest) -> None:
    ledger.create()
    with pytest.raises(InvalidInputError):
        ledger.writer.commit([draft("t", remove("never"), token="job-1")])
    (result,) = ledger.commit(draft("t", add("a"), token="job-1"))
    assert (result.version, result.replayed) == (1, False)


def test_a_token_counts_for_one_table(ledger: LedgerUnderTest) -> None:
    ledger.create("a")
    ledger.create("b")
    ledger.commit(draft("a", add("x"), token="job-1"))
    (result,) = ledger.commit(draft("b", add("x"), token="job-1"))
    assert (result.version, result.replayed) == (1, False)


Use = Callable[[], list[CommitDraft]]
OTHER_USES: dict[str, Use] = {
    "a table more": lambda: [draft("a", add("y"), token="job-1"), draft("b", add("y"), token="job-1")],
    "a table more, without it": lambda: [draft("a", add("y"), token="job-1"), draft("b", add("y"))],
    "a table more, in front": lambda: [draft("b", add("y")), draft("a", add("y"), token="job-1")],
    "a table more, with another": lambda: [draft("a", add("y"), token="job-1"), draft("b", add("y"), token="job-2")],
    "tables of two transactions": lambda: [draft("a", add("y"), token="job-1"), draft("c", add("y"), token="job-1")],
}


@pytest.mark.parametrize("name", OTHER_USES)
def test_a_token_is_not_used_again_for_another_transaction(ledger: LedgerUnderTest, name: str) -> None:
    for table in ("a", "b", "c"):
        ledger.create(table)
    ledger.commit(draft("a", add("x"), token="job-1"))
    ledger.commit(draft("c", add("x"), token="job-1"))
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit(OTHER_USES[name]())
    assert caught.value.field == "token"
    assert ledger.facts() == before


def test_description_comes_with_the_creation_only(ledger: LedgerUnderTest) -> None:
    """A replayed creation must not be taken for a change of the table's description."""
    ledger.commit(creation("t", token="job-1"))
    ledger.commit(creation("t", token="job-1"))
    table = ledger.reader.table("t")
    assert [list(commit.actions[1:]) for commit in ledger.reader.commits(table, 0, 9)] == [[METADATA, PROTOCOL]]
