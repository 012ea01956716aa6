"""Reading a ledger: state, time travel, files in batches, commits, history."""

from __future__ import annotations

import pytest

from deltasql.errors import InvalidInputError, VersionNotFoundError
from deltasql.ledger.contracts import LIVE
from deltasql.protocol.actions import AddFile, CommitInfo, DeletionVector, TableProtocol
from deltasql.protocol.files import FILES, TOMBSTONES
from ledger_backends import LedgerUnderTest
from ledger_held import held_open
from ledger_samples import METADATA, PROTOCOL, add, creation, domain, draft, metadata, paths, remove, txn

pytestmark = pytest.mark.contract

NEWER = TableProtocol(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=("x",))


def test_tables_come_by_name_and_with_ids_of_their_own(ledger: LedgerUnderTest) -> None:
    made = [ledger.create(name) for name in ("b", "a.c", "a", "B")]
    listed = ledger.reader.tables()
    assert [entry.name for entry in listed] == ["B", "a", "a.c", "b"]
    assert len({entry.table_id for entry in listed}) == 4
    assert {entry.name: entry for entry in made} == {entry.name: ledger.reader.table(entry.name) for entry in listed}


def test_the_state_at_each_version_is_the_one_it_had(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    ledger.append(table, add("a"))
    ledger.append(table, metadata(k="v"))
    ledger.append(table, NEWER)
    ledger.append(table, METADATA, PROTOCOL)
    states = [ledger.reader.state(table, version) for version in range(5)]
    assert [state.version for state in states] == [0, 1, 2, 3, 4]
    assert [state.metadata for state in states] == [METADATA, METADATA, metadata(k="v"), metadata(k="v"), METADATA]
    assert [state.protocol for state in states] == [PROTOCOL, PROTOCOL, PROTOCOL, NEWER, PROTOCOL]
    assert [state.timestamp for state in states] == [c.timestamp for c in ledger.reader.commits(table, 0, 9)]
    assert ledger.reader.state(table) == states[-1]
    assert ledger.reader.head(table).version == 4
    assert ledger.reader.head(table).timestamp == states[-1].timestamp


@pytest.mark.parametrize("version", [-1, 2, 2**31, LIVE - 1, LIVE, LIVE + 1, -(2**70)], ids=str)
def test_a_version_outside_the_history_is_not_found(ledger: LedgerUnderTest, version: int) -> None:
    ledger.set_clock(7_000)
    table = ledger.create()
    ledger.append(table, add("a"))
    with pytest.raises(VersionNotFoundError, match=r"version 0 \(7000 ms\) to 1 \(7001 ms\)") as caught:
        ledger.reader.state(table, version)
    assert caught.value.field == "version"
    assert str(version) in caught.value.message


def test_a_time_leads_to_the_newest_version_not_after_it(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(1_000)
    table = ledger.create()
    for clock in (2_000, 2_000, 5_000):
        ledger.set_clock(clock)
        ledger.append(table, add(str(clock) + str(ledger.reader.head(table).version)))
    expected = {1_000: 0, 1_999: 0, 2_000: 1, 2_001: 2, 4_999: 2, 5_000: 3, 10**15: 3}
    assert {time: ledger.reader.version_at(table, time) for time in expected} == expected
    for time in (999, 0, -5):
        with pytest.raises(VersionNotFoundError, match=f"as of {time} ms"):
            ledger.reader.version_at(table, time)


def test_a_token_leads_to_its_version(ledger: LedgerUnderTest) -> None:
    table, other = ledger.create("t"), ledger.create("u")
    ledger.append(table, add("a"))
    assert ledger.append(table, add("b"), token="it's mine") == 2
    ledger.append(table, add("c"))
    ledger.append(table, add("d"), token="it's mine")  # was committed already
    assert ledger.reader.version_of(table, "it's mine") == 2
    assert ledger.reader.version_of(table, "It's mine") is None
    assert ledger.reader.version_of(other, "it's mine") is None
    for token in ("", "\ud800"):
        with pytest.raises(InvalidInputError) as caught:
            ledger.reader.version_of(table, token)
        assert caught.value.field == "token"


def test_a_file_row_holds_what_the_action_said(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    vector = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=2**40)
    full = add(
        "p=1/a",
        size=2**62,
        modification_time=7,
        data_change=False,
        partition_values={"p": "1", "q": None, "": ""},
        stats='{"numRecords": 1}',
        tags={"t": "x", "u": None},
        base_row_id=0,
        default_row_commit_version=1,
        clustering_provider="liquid",
        extra={"later": 1},
    )
    marked = AddFile(path="b", size=1, modification_time=1, data_change=True, deletion_vector=vector)
    ledger.append(table, full, marked)
    (batch,) = ledger.reader.files(table, 1)
    assert batch.schema.equals(FILES)
    first, second = batch.to_pylist()
    assert first == {
        "path": "p=1/a",
        "partition_values": [("p", "1"), ("q", None), ("", "")],
        "size": 2**62,
        "modification_time": 7,
        "data_change": False,
        "stats": '{"numRecords": 1}',
        "tags": [("t", "x"), ("u", None)],
        "deletion_vector": None,
        "base_row_id": 0,
        "default_row_commit_version": 1,
        "clustering_provider": "liquid",
    }
    assert second["deletion_vector"] == {
        "storage_type": "u",
        "path_or_inline_dv": "x",
        "offset": None,
        "size_in_bytes": 1,
        "cardinality": 2**40,
    }
    assert (second["partition_values"], second["stats"], second["tags"]) == ([], None, None)


def test_a_tombstone_holds_what_the_action_said(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", add("a"), add("b", "v"))
    full = remove(
        "a",
        deletion_timestamp=9,
        data_change=False,
        extended_file_metadata=False,
        partition_values={"p": None},
        size=0,
        base_row_id=3,
        default_row_commit_version=0,
        tags={"t": "x"},
        stats="{}",
        extra={"later": 1},
    )
    ledger.append(table, full, remove("b", "v", deletion_timestamp=None))
    (batch,) = ledger.reader.tombstones(table, 1, newer_than=-1)
    assert batch.schema.equals(TOMBSTONES)
    first, second = batch.to_pylist()
    assert first == {
        "path": "a",
        "deletion_timestamp": 9,
        "data_change": False,
        "extended_file_metadata": False,
        "partition_values": [("p", None)],
        "size": 0,
        "deletion_vector": None,
        "base_row_id": 3,
        "default_row_commit_version": 0,
    }
    assert second["path"] == "b"
    assert second["deletion_vector"]["path_or_inline_dv"] == "v"
    absent = ("deletion_timestamp", "extended_file_metadata", "partition_values", "size", "base_row_id")
    assert [second[name] for name in absent] == [None] * 5


def test_files_come_in_batches_in_the_order_they_were_committed(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", *(add(f"a{n}") for n in range(5)))
    ledger.append(table, *(add(f"b{n}") for n in range(5)))
    # Added again: from now on it belongs to the later commit.
    ledger.append(table, add("a0"), remove("b0"))
    batches = list(ledger.reader.files(table, 2, batch_size=4))
    assert [batch.num_rows for batch in batches] == [4, 4, 1]
    assert paths(batches) == ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "a0"]
    assert paths(ledger.reader.files(table, 0, batch_size=1)) == [f"a{n}" for n in range(5)]
    removed = [remove(f"a{n}") for n in range(5)]
    ledger.append(table, *removed)
    stones = list(ledger.reader.tombstones(table, 3, newer_than=0, batch_size=4))
    assert [batch.num_rows for batch in stones] == [4, 2]
    assert paths(stones) == ["b0", "a0", "a1", "a2", "a3", "a4"]


def test_a_table_without_files_has_no_batches(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    assert list(ledger.reader.files(table, 0)) == []
    assert list(ledger.reader.tombstones(table, 0, newer_than=-1)) == []
    assert ledger.reader.count(table, 0, newer_than=-1) == (0, 0)


def test_a_reader_that_stops_half_way_is_in_nobodys_way(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", *(add(f"a{n}") for n in range(5)))
    stopped = ledger.reader.files(table, 0, batch_size=1)
    assert paths([next(iter(stopped))]) == ["a0"]
    ledger.append(table, remove("a1"))
    # What it has not seen yet is still as it was at its version.
    assert paths(stopped) == ["a1", "a2", "a3", "a4"]
    assert paths(ledger.reader.files(table, 1)) == ["a0", "a2", "a3", "a4"]


def test_old_tombstones_are_left_out_by_their_time(ledger: LedgerUnderTest) -> None:
    times = {"a": 10, "b": 20, "c": None, "d": 0, "e": -5}
    table = ledger.create("t", *(add(path) for path in times))
    ledger.append(table, *(remove(path, deletion_timestamp=time) for path, time in times.items()))
    for newer_than, expected in [(-10, "abcde"), (-5, "abcd"), (-1, "abcd"), (0, "ab"), (9, "ab"), (10, "b"), (20, "")]:
        assert paths(ledger.reader.tombstones(table, 1, newer_than=newer_than)) == list(expected)
        assert ledger.reader.count(table, 1, newer_than=newer_than) == (0, len(expected))


def test_transactions_and_domains_are_the_latest_of_each(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", txn("app", 1, last_updated=5), domain("d", "one"))
    ledger.append(table, txn("other", 9), txn("app", 2), domain("e", "two"))
    ledger.append(table, domain("d", removed=True))
    ledger.append(table, domain("d", "three"))
    assert ledger.reader.transactions(table, 0) == [txn("app", 1, last_updated=5)]
    assert ledger.reader.transactions(table, 3) == [txn("other", 9), txn("app", 2)]
    assert [ledger.reader.domains(table, version) for version in range(4)] == [
        [domain("d", "one")],
        [domain("d", "one"), domain("e", "two")],
        [domain("e", "two")],
        [domain("e", "two"), domain("d", "three")],
    ]


def test_commits_are_read_in_order_and_only_as_far_as_there_are_any(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    other = ledger.create("other")
    with held_open(ledger):
        for n in range(300):
            ledger.append(table, add(f"f{n}"))
    ledger.append(other, add("x"))
    ranges = {(0, 0): [0], (5, 7): [5, 6, 7], (299, 10**9): [299, 300], (-5, 1): [0, 1], (7, 5): [], (301, 400): []}
    for (start, end), expected in ranges.items():
        assert [commit.version for commit in ledger.reader.commits(table, start, end)] == expected
    everything = list(ledger.reader.commits(table, -(2**70), 2**70))
    assert [commit.version for commit in everything] == list(range(301))
    assert [commit.actions[1] for commit in everything[1:]] == [add(f"f{n}") for n in range(300)]


def test_history_is_newest_first(ledger: LedgerUnderTest) -> None:
    ledger.commit(creation("t", operation="CREATE TABLE", user_metadata="first"))
    table = ledger.reader.table("t")
    ledger.append(table, add("a"), operation="WRITE", metrics={"numFiles": "1"})
    lease = ledger.outbox.acquire(table, 10)
    assert lease is not None
    ledger.outbox.mark_published(table, lease, [0])
    ledger.outbox.mark_failed(table, 1, "transient", "no answer")
    newest, oldest = ledger.reader.history(table)
    assert (newest.version, newest.operation, newest.origin, newest.mirror) == (1, "WRITE", "written", "FAILED")
    assert (oldest.version, oldest.operation, oldest.mirror) == (0, "CREATE TABLE", "SUCCESS")
    assert newest.timestamp > oldest.timestamp
    assert newest.commit_info["operationMetrics"] == {"numFiles": "1"}
    assert oldest.commit_info["userMetadata"] == "first"
    (first, *_) = next(ledger.reader.commits(table, 1, 1)).actions
    assert first == CommitInfo(newest.commit_info)
    assert ledger.reader.history(table, limit=1) == [newest]
    assert ledger.reader.history(table, limit=5) == [newest, oldest]
    assert ledger.reader.history(table, limit=0) == []


def test_one_table_never_shows_in_another(ledger: LedgerUnderTest) -> None:
    a = ledger.create("a", add("x"), txn("app"), domain("d"))
    b = ledger.create("b")
    ledger.commit(draft("a", remove("x")))
    assert paths(ledger.reader.files(b, 0)) == []
    assert ledger.reader.transactions(b, 0) == []
    assert ledger.reader.domains(b, 0) == []
    assert ledger.reader.count(a, 1, newer_than=0) == (0, 1)
    assert ledger.reader.count(b, 1, newer_than=0) == (0, 0)
