"""Taking in a history that was written elsewhere: whole, with the bytes that were found, or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from deltasql.errors import DeltaSqlError, InvalidInputError, MalformedLogError, TableExistsError, VersionNotFoundError
from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit
from deltasql.protocol.actions import CommitInfo, UnknownAction
from deltasql.protocol.jsonlog import decode_commit, sha256
from ledger_backends import LedgerUnderTest
from ledger_samples import (
    METADATA,
    PROTOCOL,
    add,
    checkpoint,
    domain,
    draft,
    found,
    location,
    metadata,
    paths,
    remove,
    txn,
)

pytestmark = pytest.mark.contract

HISTORY = [
    found(0, PROTOCOL, METADATA, add("a"), timestamp=100),
    found(1, add("b", "v"), txn("app"), timestamp=200),
    found(2, remove("a"), domain("d"), UnknownAction("later", {"x": 1}), timestamp=300),
]
BASE = checkpoint(5, add("a"), add("b", "v"), remove("gone"), txn("app", 3), domain("d"), timestamp=500)
TAIL = [found(6, add("c"), timestamp=600), found(7, remove("a"), timestamp=700)]


def test_a_whole_history_is_taken_in(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(9_000)
    entry = ledger.writer.adopt("old", location("old"), HISTORY)
    assert entry == ledger.reader.table("old")
    assert (entry.name, entry.location) == ("old", location("old"))
    assert (ledger.reader.head(entry).version, ledger.reader.head(entry).timestamp) == (2, 300)
    recorded = list(ledger.reader.commits(entry, 0, 9))
    assert [list(commit.actions) for commit in recorded] == [list(commit.actions) for commit in HISTORY]
    for commit, source in zip(recorded, HISTORY, strict=True):
        assert (commit.origin, commit.timestamp, commit.found_bytes) == ("adopted", source.timestamp, None)
        assert commit.encode() == source.data
        assert commit.sha256 == sha256(source.data)
    assert paths(ledger.reader.files(entry, 2)) == ["b"]
    assert paths(ledger.reader.files(entry, 0)) == ["a"]
    assert [ledger.reader.version_at(entry, time) for time in (100, 299, 10_000)] == [0, 1, 2]


def test_it_counts_as_published(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(9_000)
    entry = ledger.writer.adopt("old", location("old"), HISTORY, checkpoint_version=1)
    head = ledger.outbox.mirror_head(entry)
    assert (head.published_version, head.checkpoint_version, head.quarantined) == (2, 1, False)
    assert ledger.outbox.unpublished(entry, 9) == []
    for status, source in zip(ledger.outbox.status(entry), HISTORY, strict=True):
        assert (status.state, status.attempts, status.published_at) == ("SUCCESS", 0, 9_000)
        assert (status.bytes, status.sha256) == (len(source.data), sha256(source.data))
    assert {entry.mirror for entry in ledger.reader.history(entry)} == {"SUCCESS"}


def test_without_a_checkpoint_none_is_known(ledger: LedgerUnderTest) -> None:
    entry = ledger.writer.adopt("old", location("old"), HISTORY)
    assert ledger.outbox.mirror_head(entry).checkpoint_version is None


def test_it_goes_on_from_there(ledger: LedgerUnderTest) -> None:
    entry = ledger.writer.adopt("old", location("old"), HISTORY)
    ledger.set_clock(1)
    (result,) = ledger.commit(draft("old", remove("b", "v"), add("b", "w"), read_version=2))
    assert (result.version, result.timestamp) == (3, 301)
    assert ledger.outbox.unpublished(entry, 9) == [3]
    (info, *_) = next(ledger.reader.commits(entry, 3, 3)).actions
    assert isinstance(info, CommitInfo)
    assert info.in_commit_timestamp == 301
    lease = ledger.outbox.acquire(entry, 10)
    assert lease is not None
    ledger.outbox.mark_published(entry, lease, [3])
    assert [commit.origin for commit in ledger.reader.commits(entry, 0, 9)] == ["adopted"] * 3 + ["written"]


def test_in_commit_timestamps_go_on_as_the_adopted_table_has_them(ledger: LedgerUnderTest) -> None:
    entry = ledger.writer.adopt("old", location("old"), [found(0, PROTOCOL, metadata(), timestamp=1)])
    ledger.append(entry, add("a"))
    (info, *_) = next(ledger.reader.commits(entry, 1, 1)).actions
    assert isinstance(info, CommitInfo)
    assert info.in_commit_timestamp is None


def test_conflicts_are_seen_in_adopted_commits(ledger: LedgerUnderTest) -> None:
    ledger.writer.adopt("old", location("old"), HISTORY)
    outcome = ledger.writer.commit([draft("old", txn("app", 9), read_version=0)])
    assert getattr(outcome, "reason", None) == "concurrent_transaction"
    assert getattr(outcome, "winning_version", None) == 1


ODD_BYTES: dict[str, bytes] = {
    "no newline at the end": HISTORY[1].data[:-1],
    "spaces": HISTORY[1].data.replace(b":", b": "),
    "blank lines": b"\n" + HISTORY[1].data + b"\n\n",
    "explicit nulls": HISTORY[1].data.replace(b'"size":10', b'"size":10,"tags":null'),
    "floats spelled otherwise": b'{"commitInfo":{"x":1e2,"y":1.50}}\n' + HISTORY[1].data.split(b"\n", 1)[1],
    "no commitInfo": HISTORY[1].data.split(b"\n", 1)[1],
    "commitInfo last": b"".join(HISTORY[1].data.splitlines(keepends=True)[::-1]),
    "two of commitInfo": HISTORY[1].data + b'{"commitInfo":{"second":true}}\n',
    "an operation that is no text": b'{"commitInfo":{"operation":{"a":[1]}}}\n' + HISTORY[1].data.split(b"\n", 1)[1],
    "an empty commit": b"",
}


@pytest.mark.parametrize("name", ODD_BYTES)
def test_the_bytes_that_were_found_are_the_bytes_of_the_commit(ledger: LedgerUnderTest, name: str) -> None:
    data = ODD_BYTES[name]
    odd = AdoptedCommit(version=1, data=data, actions=decode_commit(data), timestamp=200)
    entry = ledger.writer.adopt("old", location("old"), [HISTORY[0], odd])
    (commit,) = ledger.reader.commits(entry, 1, 1)
    assert commit.encode() == data
    assert commit.sha256 == sha256(data)
    assert list(commit.actions) == list(odd.actions)
    assert ledger.outbox.status(entry)[1].bytes == len(data)
    assert ledger.reader.history(entry)[0].operation in ("FOUND", None)


def test_only_bytes_that_differ_are_kept(ledger: LedgerUnderTest) -> None:
    same = AdoptedCommit(version=1, data=HISTORY[1].data, actions=HISTORY[1].actions, timestamp=200)
    other = AdoptedCommit(version=2, data=HISTORY[2].data[:-1], actions=HISTORY[2].actions, timestamp=300)
    entry = ledger.writer.adopt("old", location("old"), [HISTORY[0], same, other])
    kept = [commit.found_bytes for commit in ledger.reader.commits(entry, 0, 2)]
    assert kept == [None, None, HISTORY[2].data[:-1]]


# -- histories that begin with a checkpoint ---------------------------------------------------------------------------


def test_a_history_may_begin_with_a_checkpoint(ledger: LedgerUnderTest) -> None:
    entry = ledger.writer.adopt("old", location("old"), TAIL, BASE, checkpoint_version=5)
    assert ledger.reader.head(entry).version == 7
    assert ledger.reader.state(entry, 5).metadata == METADATA
    assert paths(ledger.reader.files(entry, 5)) == ["a", "b"]
    assert paths(ledger.reader.files(entry, 7)) == ["b", "c"]
    assert paths(ledger.reader.tombstones(entry, 7, newer_than=0)) == ["gone", "a"]
    assert ledger.reader.transactions(entry, 7) == [txn("app", 3)]
    assert ledger.reader.domains(entry, 7) == [domain("d")]
    with pytest.raises(VersionNotFoundError, match=r"version 5 \(500 ms\) to 7 \(700 ms\)"):
        ledger.reader.state(entry, 4)
    with pytest.raises(VersionNotFoundError):
        ledger.reader.version_at(entry, 499)
    assert ledger.reader.version_at(entry, 500) == 5
    assert [commit.origin for commit in ledger.reader.commits(entry, 0, 9)] == ["checkpoint", "adopted", "adopted"]
    head = ledger.outbox.mirror_head(entry)
    assert (head.published_version, head.checkpoint_version) == (7, 5)
    assert ledger.append(entry, remove("b", "v"), read_version=5) == 8


@pytest.mark.parametrize("data", [None, b'{"commitInfo":{}}\n'], ids=["gone", "found"])
def test_the_commit_file_of_the_checkpoint_may_be_gone(ledger: LedgerUnderTest, data: bytes | None) -> None:
    base = msgspec.structs.replace(BASE, data=data)
    entry = ledger.writer.adopt("old", location("old"), [], base)
    (commit,) = ledger.reader.commits(entry, 0, 9)
    assert (commit.version, commit.timestamp, commit.origin) == (5, 500, "checkpoint")
    assert commit.encode() == data
    assert commit.sha256 == ("" if data is None else sha256(data))
    assert list(commit.actions) == list(BASE.actions)
    (entry_5,) = ledger.reader.history(entry)
    assert (entry_5.operation, entry_5.commit_info) == (None, {})
    assert ledger.outbox.status(entry)[0].bytes == len(data or b"")
    assert ledger.append(entry, remove("a")) == 6


# -- refused, whole ---------------------------------------------------------------------------------------------------


def late(version: int, timestamp: int) -> AdoptedCommit:
    return found(version, add(f"f{version}"), timestamp=timestamp)


Try = tuple[dict[str, Any], type[DeltaSqlError]]
REFUSED: dict[str, Try] = {
    "nothing": ({"commits": []}, InvalidInputError),
    "a first version that is missing": ({"commits": HISTORY[1:]}, InvalidInputError),
    "a gap": ({"commits": [HISTORY[0], HISTORY[2]]}, InvalidInputError),
    "the wrong order": ({"commits": HISTORY[::-1]}, InvalidInputError),
    "a version twice": ({"commits": [*HISTORY, HISTORY[2]]}, InvalidInputError),
    "a gap after the checkpoint": ({"commits": TAIL[1:], "base": BASE}, InvalidInputError),
    "commits before the checkpoint": ({"commits": HISTORY, "base": BASE}, InvalidInputError),
    "time that stands still": ({"commits": [*HISTORY, late(3, 300)]}, InvalidInputError),
    "time that goes back": ({"commits": [late(6, 499)], "base": BASE}, InvalidInputError),
    "no protocol": ({"commits": [found(0, METADATA, timestamp=1)]}, InvalidInputError),
    "no metadata": ({"commits": [found(0, PROTOCOL, add("a"), timestamp=1)]}, InvalidInputError),
    "a checkpoint without them": (
        {"commits": TAIL, "base": AdoptedBase(version=5, actions=[add("a")], timestamp=500)},
        InvalidInputError,
    ),
    "a number of 65 bits": ({"commits": [*HISTORY, found(3, add("x", size=2**63), timestamp=400)]}, MalformedLogError),
    "such a number in a checkpoint": (
        {"commits": [], "base": checkpoint(5, remove("x", size=2**63), timestamp=500)},
        MalformedLogError,
    ),
    "a name that is taken": ({"name": "there", "commits": HISTORY}, TableExistsError),
    "a location that is taken": ({"location": location("there"), "commits": HISTORY}, TableExistsError),
    "what cannot be written as JSON": (
        {"commits": [*HISTORY, AdoptedCommit(version=3, data=b"", actions=[add("\ud800")], timestamp=400)]},
        MalformedLogError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_history_leaves_nothing(ledger: LedgerUnderTest, name: str) -> None:
    ledger.create("there", add("x"))
    before = ledger.facts()
    arguments, error = REFUSED[name]
    with pytest.raises(error):
        ledger.writer.adopt(**{"name": "old", "location": location("old"), **arguments})
    assert ledger.facts() == before
    # The name and the place are free.
    assert ledger.writer.adopt("old", location("old"), HISTORY).name == "old"
