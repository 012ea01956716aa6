"""What every ledger makes of a commit: its version, its bytes, its time."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deltasql.ledger.contracts import RecordedCommit, TableEntry
from deltasql.outcomes import Committed
from deltasql.protocol.actions import (
    AddCdcFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.jsonlog import decode_commit, sha256
from deltasql.version import ENGINE_INFO
from ledger_backends import LedgerUnderTest
from ledger_samples import METADATA, add, creation, domain, draft, location, metadata, remove, txn

pytestmark = pytest.mark.contract

NASTY = 'it\'s "quoted" \\ \x01\x1f\t\n % ? :x 漢字 😀 \u2028'
EXTRA = {"later": {"deep": [1, 2.5, None, NASTY], "big": 2**63 - 1}, "flag": False, "empty": {}}
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv=NASTY, offset=4, size_in_bytes=40, cardinality=6, extra=EXTRA
)
# Every type with every field, in the order in which a commit of ours lists them.
EVERYTHING = [
    Metadata(
        id="id",
        name=NASTY,
        description=NASTY,
        format=Format(provider="parquet", options={"a": NASTY}, extra=EXTRA),
        schema_string=NASTY,
        partition_columns=("p", NASTY),
        configuration={"k": NASTY, "": ""},
        created_time=0,
        extra=EXTRA,
    ),
    TableProtocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=(),
        writer_features=("a", NASTY),
        extra=EXTRA,
    ),
    SetTransaction(app_id=NASTY, version=2**63 - 1, last_updated=0, extra=EXTRA),
    DomainMetadata(domain=NASTY, configuration=NASTY, removed=False, extra=EXTRA),
    RemoveFile(
        path="old",
        deletion_timestamp=7,
        data_change=False,
        extended_file_metadata=True,
        partition_values={"p": None, "q": NASTY},
        size=0,
        tags={"t": None},
        deletion_vector=VECTOR,
        base_row_id=0,
        default_row_commit_version=3,
        stats=NASTY,
        extra=EXTRA,
    ),
    AddFile(
        path=NASTY,
        partition_values={"p": None, "q": "", "r": NASTY},
        size=2**63 - 1,
        modification_time=-1,
        data_change=False,
        stats='{"numRecords":1.0,"minValues":{"b":1e5,"a":"\\u001F"}}',
        tags={},
        deletion_vector=VECTOR,
        base_row_id=5,
        default_row_commit_version=0,
        clustering_provider=NASTY,
        extra=EXTRA,
    ),
    AddCdcFile(path=NASTY, partition_values={"p": NASTY}, size=1, data_change=False, tags={"t": "x"}, extra=EXTRA),
    UnknownAction("sidecar", {"path": NASTY, **EXTRA}),
]


def recorded(ledger: LedgerUnderTest, table: TableEntry, version: int) -> RecordedCommit:
    (commit,) = ledger.reader.commits(table, version, version)
    return commit


def info(ledger: LedgerUnderTest, table: TableEntry, version: int) -> dict[str, Any]:
    first = recorded(ledger, table, version).actions[0]
    assert isinstance(first, CommitInfo)
    return dict(first.fields)


def test_a_new_table_begins_with_version_0(ledger: LedgerUnderTest) -> None:
    assert ledger.reader.tables() == []
    (result,) = ledger.commit(creation("sales.orders"))
    entry = ledger.reader.table("sales.orders")
    assert result == Committed(table="sales.orders", version=0, timestamp=result.timestamp)
    assert (entry.name, entry.location) == ("sales.orders", location("sales.orders"))
    assert ledger.reader.tables() == [entry]
    assert ledger.reader.head(entry).version == 0
    assert ledger.reader.head(entry).timestamp == result.timestamp


def test_versions_count_up_for_each_table_on_its_own(ledger: LedgerUnderTest) -> None:
    a, b = ledger.create("a"), ledger.create("b")
    assert [ledger.append(a, add(str(n))) for n in range(3)] == [1, 2, 3]
    assert ledger.append(b, add("x")) == 1
    assert [entry.name for entry in ledger.reader.tables()] == ["a", "b"]
    assert [commit.version for commit in ledger.reader.commits(a, 0, 9)] == [0, 1, 2, 3]


def test_every_field_of_every_action_comes_back_as_it_went_in(ledger: LedgerUnderTest) -> None:
    table = ledger.create(
        "t", AddFile(path="old", size=1, modification_time=1, data_change=True, deletion_vector=VECTOR)
    )
    version = ledger.append(table, *reversed(EVERYTHING), parameters={"p": NASTY, "n": None}, metrics={"m": "1"})
    commit = recorded(ledger, table, version)
    assert list(commit.actions[1:]) == EVERYTHING
    data = commit.encode()
    assert data is not None
    assert sha256(data) == commit.sha256
    assert decode_commit(data) == list(commit.actions)
    assert (commit.origin, commit.found_bytes, commit.encoder) == ("written", None, 1)
    assert ledger.outbox.status(table)[version].bytes == len(data)


def test_the_recorded_hash_is_that_of_the_bytes_of_every_version(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    ledger.append(table, add("a", stats='{"numRecords":1}'), add("b", "dv"), txn("app"))
    ledger.append(table, remove("b", "dv"), add("b", "dv2"), domain("d", removed=True))
    for commit, status in zip(ledger.reader.commits(table, 0, 9), ledger.outbox.status(table), strict=True):
        assert sha256(commit.encode() or b"") == commit.sha256 == status.sha256


def test_a_caller_that_changes_its_actions_afterwards_changes_nothing(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    values: dict[str, str | None] = {"p": "1"}
    extra = {"deep": [1]}
    ledger.append(table, add("a", partition_values=values, extra=extra))
    values["p"] = "2"
    extra["deep"].append(2)
    kept = recorded(ledger, table, 1).actions[1]
    assert isinstance(kept, AddFile)
    assert (kept.partition_values, kept.extra) == ({"p": "1"}, {"deep": [1]})


def test_commit_info_says_what_the_draft_says(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    ledger.append(
        table,
        add("a"),
        operation="MERGE",
        parameters={"predicate": '["x"]'},
        metrics={"numFiles": "1"},
        user_metadata=NASTY,
        read_version=0,
    )
    fields = info(ledger, table, 1)
    assert list(fields) == [
        "inCommitTimestamp",
        "timestamp",
        "operation",
        "operationParameters",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "engineInfo",
        "txnId",
    ]
    timestamp = ledger.reader.head(table).timestamp
    assert (fields["inCommitTimestamp"], fields["timestamp"]) == (timestamp, timestamp)
    assert fields["operation"] == "MERGE"
    assert fields["operationParameters"] == {"predicate": '["x"]'}
    assert fields["operationMetrics"] == {"numFiles": "1"}
    assert (fields["userMetadata"], fields["readVersion"], fields["engineInfo"]) == (NASTY, 0, ENGINE_INFO)
    assert (fields["isolationLevel"], fields["isBlindAppend"]) == ("Serializable", True)


def test_only_a_table_with_the_property_has_in_commit_timestamps(ledger: LedgerUnderTest) -> None:
    table = ledger.create("t", metadata())
    assert "inCommitTimestamp" not in info(ledger, table, 0)
    ledger.append(table, METADATA)
    assert next(iter(info(ledger, table, 1))) == "inCommitTimestamp"
    ledger.append(table, add("a"))
    assert "inCommitTimestamp" in info(ledger, table, 2)
    ledger.append(table, metadata())
    assert "inCommitTimestamp" not in info(ledger, table, 3)


def test_time_goes_on_even_when_the_clock_goes_back(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(5_000)
    table = ledger.create()
    for clock, expected in [(4_000, 5_001), (0, 5_002), (5_002, 5_003), (9_000, 9_000), (9_000, 9_001), (1, 9_002)]:
        ledger.set_clock(clock)
        (result,) = ledger.commit(draft("t", add(str(expected))))
        assert result.timestamp == expected
        assert ledger.reader.head(table).timestamp == expected
        assert info(ledger, table, result.version)["inCommitTimestamp"] == expected
    assert [commit.timestamp for commit in ledger.reader.commits(table, 0, 9)] == [
        *(5_000, 5_001, 5_002, 5_003, 9_000, 9_001, 9_002)
    ]


def test_a_transaction_has_one_time_after_everything_in_any_of_its_tables(ledger: LedgerUnderTest) -> None:
    ledger.set_clock(9_000)
    ledger.create("late")
    ledger.set_clock(1_000)
    ledger.create("early")
    results = ledger.commit(draft("early", add("a")), draft("late", add("a")), creation("new"))
    assert {result.timestamp for result in results} == {9_001}
    assert [result.version for result in results] == [1, 1, 0]


def test_without_a_stopped_clock_time_is_that_of_the_day(ledger: LedgerUnderTest) -> None:
    (first,) = ledger.commit(creation("t"))
    assert 1_700_000_000_000 < first.timestamp < 10_000_000_000_000


def test_an_empty_transaction_is_nothing(ledger: LedgerUnderTest) -> None:
    assert ledger.writer.commit([]) == ()


def test_a_commit_may_hold_no_action(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    assert ledger.append(table) == 1
    assert len(recorded(ledger, table, 1).actions) == 1


def test_threads_get_every_version_once(ledger: LedgerUnderTest) -> None:
    a, b = ledger.create("a"), ledger.create("b")

    def work(number: int) -> list[tuple[Committed, ...]]:
        # Half of them name the tables in the other order, which must not matter.
        drafts = [[draft("a", add(f"{number}-{n}")), draft("b", add(f"{number}-{n}"))] for n in range(6)]
        return [ledger.commit(*(pair if number % 2 else pair[::-1])) for pair in drafts]

    with ThreadPoolExecutor(4) as pool:
        results = [results for worker in pool.map(work, range(4)) for results in worker]
    for table in (a, b):
        versions = Counter(r.version for pair in results for r in pair if r.table == table.name)
        assert versions == Counter(range(1, 25))
        times = [commit.timestamp for commit in ledger.reader.commits(table, 0, 99)]
        assert times == sorted(set(times))
    assert all(pair[0].timestamp == pair[1].timestamp for pair in results)
