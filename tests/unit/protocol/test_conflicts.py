"""Which commits may stand beside which: Delta's rules as a table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.conflicts import BLIND, Reads, find_conflict

pytestmark = pytest.mark.unit


def add(path: str, *, data_change: bool = True) -> AddFile:
    return AddFile(path=path, size=1, modification_time=1, data_change=data_change)


def remove(path: str) -> RemoveFile:
    return RemoveFile(path=path, data_change=True)


WHOLE = Reads(whole_table=True)
READ_F = Reads(files=frozenset({("f", "")}))
SEES_NEW = Reads(may_match=lambda file: file.path.startswith("new"))
METADATA = Metadata(id="i", schema_string="{}")
PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=2)
TXN = SetTransaction(app_id="a", version=2)
DOMAIN = DomainMetadata(domain="d", configuration="", removed=False)

CASES: list[tuple[str, Reads, Sequence[Action], Sequence[Action], str | None]] = [
    ("append beside append", BLIND, [add("x")], [add("y")], None),
    ("append beside delete", BLIND, [add("x")], [remove("f")], None),
    ("append beside nothing", BLIND, [add("x")], [CommitInfo({})], None),
    ("append beside metadata", BLIND, [add("x")], [METADATA], "metadata_changed"),
    ("append beside protocol", BLIND, [add("x")], [PROTOCOL], "protocol_changed"),
    ("overwrite beside append", WHOLE, [remove("f"), add("x")], [add("y")], "concurrent_append"),
    ("overwrite beside delete", WHOLE, [remove("f"), add("x")], [remove("g")], "concurrent_delete_read"),
    ("overwrite beside compaction's add", WHOLE, [add("x")], [add("y", data_change=False)], None),
    ("delete beside delete of the same file", READ_F, [remove("f")], [remove("f")], "concurrent_delete_delete"),
    ("delete beside delete of another file", READ_F, [remove("f")], [remove("g")], None),
    ("read file removed", READ_F, [add("x")], [remove("f")], "concurrent_delete_read"),
    ("delete beside append that may match", SEES_NEW, [remove("f")], [add("new")], "concurrent_append"),
    ("delete beside append that cannot match", SEES_NEW, [remove("f")], [add("old")], None),
    ("delete beside rewrite that may match", SEES_NEW, [remove("f")], [add("new", data_change=False)], None),
    ("same application", BLIND, [add("x"), TXN], [SetTransaction(app_id="a", version=1)], "concurrent_transaction"),
    ("other application", BLIND, [add("x"), TXN], [SetTransaction(app_id="b", version=1)], None),
    ("same domain", BLIND, [DOMAIN], [DOMAIN], "concurrent_domain"),
    ("other domain", BLIND, [DOMAIN], [DomainMetadata(domain="e", configuration="", removed=True)], None),
]


@pytest.mark.parametrize(("reads", "mine", "theirs", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_pairs(reads: Reads, mine: Sequence[Action], theirs: Sequence[Action], reason: str | None) -> None:
    conflict = find_conflict("t", reads, mine, [(7, theirs)])
    assert (conflict and conflict.reason) == reason
    if conflict:
        assert conflict.winning_version == 7
        assert conflict.detail


def test_the_first_winner_that_conflicts_is_named_with_its_file() -> None:
    conflict = find_conflict("t", READ_F, [remove("f")], [(4, [add("y")]), (5, [remove("f")]), (6, [METADATA])])
    assert conflict is not None
    assert (conflict.winning_version, conflict.files) == (5, ("f",))


def test_a_deletion_vector_makes_another_file() -> None:
    reads = Reads(files=frozenset({("f", "dv1")}))
    assert find_conflict("t", reads, [], [(1, [remove("f")])]) is None
