"""Replay: commits to state, and what is no commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deltasql.errors import MalformedLogError
from deltasql.protocol.actions import (
    Action,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.replay import Replay, commit_problem

pytestmark = pytest.mark.unit

METADATA = Metadata(id="i", schema_string="{}")
PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=2)
DV = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)


def add(path: str, size: int = 1, vector: DeletionVector | None = None) -> AddFile:
    return AddFile(path=path, size=size, modification_time=1, data_change=True, deletion_vector=vector)


def remove(path: str, vector: DeletionVector | None = None) -> RemoveFile:
    return RemoveFile(path=path, data_change=True, deletion_vector=vector)


def test_files_come_go_and_come_back() -> None:
    state = Replay().apply([add("a"), add("b")]).apply([remove("a")])
    assert list(state.files) == [("b", "")]
    assert list(state.tombstones) == [("a", "")]
    state.apply([add("a", size=2)])
    assert list(state.files) == [("b", ""), ("a", "")]
    assert state.files["a", ""].size == 2
    assert not state.tombstones


def test_a_deletion_vector_replaces_the_file_it_belongs_to() -> None:
    state = Replay().apply([add("a")]).apply([remove("a"), add("a", vector=DV)])
    assert list(state.files) == [("a", DV.unique_id)]
    assert list(state.tombstones) == [("a", "")]


def test_the_newest_of_the_rest_counts() -> None:
    later = Metadata(id="i", schema_string="{}", name="later")
    state = Replay().apply([PROTOCOL, METADATA, SetTransaction(app_id="a", version=1)])
    state.apply([later, SetTransaction(app_id="a", version=2)])
    state.apply([DomainMetadata(domain="d", configuration="1", removed=False)])
    assert state.require("t") == (PROTOCOL, later)
    assert state.transactions["a"].version == 2
    assert state.domains["d"].configuration == "1"


def test_a_table_needs_protocol_and_metadata() -> None:
    with pytest.raises(MalformedLogError, match="no metaData"):
        Replay().apply([PROTOCOL]).require("t")
    with pytest.raises(MalformedLogError, match="no protocol and no metaData"):
        Replay().apply([add("a")]).require("t")


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ([METADATA, METADATA], "more than one metaData"),
        ([PROTOCOL, PROTOCOL], "more than one protocol"),
        ([add("a"), add("a")], "more than one add of a"),
        ([remove("a"), remove("a", DV)], "more than one remove of a"),
        ([SetTransaction(app_id="x", version=1), SetTransaction(app_id="x", version=2)], "application x"),
        ([add("a"), remove("a")], "both add and remove of a"),
    ],
)
def test_what_may_stand_only_once(actions: Sequence[Action], says: str) -> None:
    assert says in (commit_problem(actions) or "")


def test_a_file_may_leave_and_come_back_with_another_vector() -> None:
    assert commit_problem([PROTOCOL, METADATA, remove("a"), add("a", vector=DV), add("b")]) is None
