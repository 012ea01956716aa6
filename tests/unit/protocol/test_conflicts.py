"""Which commits may stand beside which: Delta's rules as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conflict_cases import (
    A1,
    BASE,
    CASES,
    EVERYTHING,
    IN_A,
    NOTHING,
    RAISES,
    Case,
    Look,
    add,
    domain,
    metadata,
    protocol,
    remove,
    txn,
)
from deltasql.outcomes import ConflictReason
from deltasql.protocol.actions import Action, AddFile, CommitInfo, DeletionVector, RemoveFile
from deltasql.protocol.conflicts import BLIND, IsolationLevel, Reads, find_conflict

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pair_comes_out_as_the_table_says(case: Case) -> None:
    reads = case.look.reads(case.kind)
    conflict = find_conflict("t", reads, case.mine, [(7, [case.info, *case.winner])], case.isolation)
    assert (conflict and conflict.reason) == case.ours
    if conflict:
        assert (conflict.table, conflict.winning_version) == ("t", 7)
        assert conflict.detail
        assert bool(conflict.files) == (case.ours or "").startswith(("concurrent_append", "concurrent_delete"))


def test_the_table_has_every_reason_and_explains_every_difference() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 75
    assert {case.ours for case in CASES} == {None, *get_args(ConflictReason)}
    for case in CASES:
        assert bool(case.difference) == (case.delta != (case.ours and RAISES[case.ours])), case.name


def test_the_documentation_names_every_reason() -> None:
    text = (Path(__file__).parents[3] / "docs/conflicts.md").read_text("utf-8")
    assert [reason for reason in get_args(ConflictReason) if f"`{reason}`" not in text] == []


def test_the_first_winner_that_conflicts_is_named_with_its_file() -> None:
    winners = [(4, [add("y")]), (5, [add("z"), remove("a1")]), (6, [metadata()])]
    conflict = find_conflict("t", A1.reads("plain"), [remove("a1")], winners)
    assert conflict is not None
    assert (conflict.winning_version, conflict.files) == (5, ("a1",))


def test_the_weightiest_reason_of_a_winner_is_told_whatever_its_order() -> None:
    winner = [add("a8"), remove("a2"), remove("a1"), txn("app"), domain("d"), metadata(), protocol()]
    mine = [remove("a1"), txn("app"), domain("d")]
    told: list[str] = []
    while conflict := find_conflict("t", IN_A.reads("partitioned"), mine, [(1, winner)]):
        told.append(conflict.reason)
        winner = [a for a in winner if find_conflict("t", IN_A.reads("partitioned"), mine, [(1, [a])]) != conflict]
    assert told == [
        *("protocol_changed", "metadata_changed", "concurrent_domain", "concurrent_transaction"),
        *("concurrent_delete_delete", "concurrent_delete_read", "concurrent_append"),
    ]


def test_a_file_is_known_by_its_path_whatever_its_deletion_vector() -> None:
    reads = Reads(files=frozenset({("f", "dv1")}))
    vector = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    gone = RemoveFile(path="f", data_change=True, deletion_vector=vector)
    assert find_conflict("t", reads, [], [(1, [gone])]) is not None
    assert find_conflict("t", BLIND, [remove("f")], [(1, [gone])]) is not None


def test_a_winner_without_commit_info_is_no_blind_append() -> None:
    reads = EVERYTHING.reads("plain")
    for info in ([], [CommitInfo({})], [CommitInfo({"isBlindAppend": "true"})]):
        assert find_conflict("t", reads, [add("x")], [(1, [*info, add("y")])], "WriteSerializable") is not None


def test_the_mark_of_row_ids_is_nobody_s_own() -> None:
    """Delta Spark writes it itself, so that no commit that is handed in may hold it; here an engine may."""
    mine, theirs = domain("delta.rowTracking", "{}"), domain("delta.rowTracking", '{"rowIdHighWaterMark":9}')
    assert find_conflict("t", BLIND, [mine, add("x")], [(1, [theirs, add("y")])]) is None
    compaction = [mine, remove("a1", data_change=False), add("a9", data_change=False)]
    assert find_conflict("t", IN_A.reads("partitioned"), compaction, [(1, [theirs, add("a8")])]) is None


PATHS = ("a1", "a2", "b1", "a7", "b8")
FILES = st.one_of(
    st.builds(add, st.sampled_from(PATHS), data_change=st.booleans()),
    st.builds(remove, st.sampled_from(PATHS), data_change=st.booleans()),
)
OTHERS = st.sampled_from([txn("app"), txn("other"), domain("d"), domain("e"), metadata(), protocol()])
INFOS = st.sampled_from([CommitInfo({}), CommitInfo({"isBlindAppend": True}), CommitInfo({"isBlindAppend": False})])
COMMITS = st.lists(st.one_of(FILES, OTHERS, INFOS), max_size=5)
LOOKS = st.sampled_from([NOTHING, EVERYTHING, IN_A, A1, Look(where="id < 10")])
LEVELS = st.sampled_from(get_args(IsolationLevel))


@given(mine=st.lists(st.builds(add, st.sampled_from(PATHS))), winners=st.lists(st.lists(FILES)), level=LEVELS)
def test_appends_never_conflict_on_files(
    mine: list[AddFile], winners: list[list[Action]], level: IsolationLevel
) -> None:
    assert find_conflict("t", BLIND, mine, list(enumerate(winners)), level) is None


@given(look=LOOKS, mine=COMMITS, winners=st.lists(COMMITS, min_size=1), more=COMMITS, level=LEVELS, data=st.data())
def test_more_winners_never_make_a_conflict_go_away(
    look: Look,
    mine: list[Action],
    winners: list[list[Action]],
    more: list[Action],
    level: IsolationLevel,
    data: st.DataObject,
) -> None:
    def conflicts(history: Sequence[list[Action]]) -> bool:
        return find_conflict("t", look.reads("partitioned"), mine, list(enumerate(history)), level) is not None

    place = data.draw(st.integers(0, len(winners)))
    longer = [*winners[:place], more, *winners[place:]]
    assert conflicts(longer) == (conflicts(winners) or conflicts([more]))


@given(look=LOOKS, mine=COMMITS, winner=COMMITS)
def test_the_weaker_level_refuses_nothing_that_the_stronger_allows(
    look: Look, mine: list[Action], winner: list[Action]
) -> None:
    reads = look.reads("partitioned")
    if find_conflict("t", reads, mine, [(1, winner)]) is None:
        assert find_conflict("t", reads, mine, [(1, winner)], "WriteSerializable") is None


@given(look=LOOKS, mine=COMMITS, winner=st.lists(st.one_of(FILES, OTHERS)))
def test_whoever_read_more_is_refused_at_least_as_often(look: Look, mine: list[Action], winner: list[Action]) -> None:
    def refused(reads: Reads) -> bool:
        return find_conflict("t", reads, mine, [(1, winner)]) is not None

    everything = Reads(whole_table=True, files=frozenset((file.path, "") for file in BASE))
    assert refused(BLIND) <= refused(look.reads("partitioned")) <= refused(everything)
