"""Planning never drops a file that may match, whatever is indexed, on every database; and it looks at few others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasql.ledger.contracts import TableEntry
from deltasql.protocol.actions import AddFile, DomainMetadata, Metadata
from deltasql.protocol.predicate import parse
from deltasql.protocol.rows import evaluate
from deltasql.protocol.schema import StructType, parse_schema, schema_string
from file_samples import POOLS, combined, conditions, files
from ledger_backends import LedgerUnderTest
from ledger_samples import creation, draft, remove
from predicate_samples import FILE_SCHEMA as SCHEMA
from predicate_samples import PARTITIONED, struct

pytestmark = pytest.mark.contract

INDEXABLE = sorted(set(POOLS) - set(PARTITIONED))
_names = itertools.count()


def metadata_of(schema: StructType, partitioned: Sequence[str] = (), indexed: Sequence[str] = ()) -> Metadata:
    return Metadata(
        id="0",
        schema_string=schema_string(schema),
        partition_columns=tuple(partitioned),
        configuration={"deltasql.skippingColumns": ", ".join(indexed)} if indexed else {},
    )


def new_table(ledger: LedgerUnderTest, metadata: Metadata, *adds: AddFile) -> TableEntry:
    name = f"t{next(_names)}"
    ledger.commit(creation(name, metadata, *adds))
    return ledger.reader.table(name)


def planned(ledger: LedgerUnderTest, table: TableEntry, text: str, version: int | None = None) -> list[str]:
    version = ledger.reader.head(table).version if version is None else version
    metadata = ledger.reader.state(table, version).metadata
    predicate = parse(text, parse_schema(metadata.schema_string))
    batches = ledger.reader.plan(table, version, predicate, metadata)
    return [path for batch in batches for path in batch.column("path").to_pylist()]


FILES = st.lists(files(), min_size=1, max_size=6)
TEXTS = st.lists(combined(conditions()), min_size=1, max_size=4)
INDEXED = st.lists(st.sampled_from(INDEXABLE), max_size=2, unique=True)
Made = list[tuple[pa.Table, AddFile, list[bool]]]


def test_no_file_with_a_matching_row_is_dropped(ledger: LedgerUnderTest, request: pytest.FixtureRequest) -> None:
    # DuckDB opens its file for each transaction.
    examples = 5 if "duckdb" in request.node.name else 25

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(FILES, TEXTS, INDEXED, st.sets(st.integers(0, 5)))
    def check(made: Made, texts: list[str], indexed: list[str], removed: set[int]) -> None:
        adds = [msgspec.structs.replace(add, path=f"f{place}") for place, (_, add, _) in enumerate(made)]
        table = new_table(ledger, metadata_of(SCHEMA, PARTITIONED, indexed), *adds)
        gone = [add for place, add in enumerate(adds) if place in removed]
        if gone:
            ledger.append(table, *(remove(add.path) for add in gone))
        for text in texts:
            predicate = parse(text, SCHEMA)
            for version, present in ((0, adds), (1, [add for add in adds if add not in gone])):
                if version == 1 and not gone:
                    continue
                found = planned(ledger, table, text, version)
                assert len(found) == len(set(found))
                assert set(found) <= {add.path for add in present}
                for place, (rows, add, _) in enumerate(made):
                    if adds[place] in present and True in evaluate(predicate, rows).to_pylist():
                        assert adds[place].path in found, (text, indexed, add.stats)

    check()


def numbered(name: str, low: int, high: int, **fields: object) -> AddFile:
    stats = f'{{"numRecords":9,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},"nullCount":{{"id":0}}}}'
    given: dict[str, object] = {"partition_values": {}, "size": 1, "modification_time": 1, "data_change": True}
    return AddFile(path=name, stats=stats, **(given | fields))  # pyright: ignore[reportArgumentType]


NUMBERS = struct(id="long", name="string")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 150", ["b"]),
        ("id BETWEEN 150 AND 250", ["b", "c"]),
        ("id < 100", ["a", "b"]),
        ("id <= 100", ["a", "b"]),
        ("id > 299", ["c", "wide"]),
        # The hull of both values: "b" lies between them.
        ("id IN (5, 205)", ["a", "b", "c"]),
        ("NOT (id < 200)", ["c", "wide"]),
        ("id = 150 OR name = 'x'", ["a", "b", "c", "wide"]),
        ("id > 5 AND id < 3", []),
        ("false", []),
    ],
)
def test_only_files_in_range_leave_the_database(shared_ledger: LedgerUnderTest, text: str, expected: list[str]) -> None:
    adds = (numbered("a", 0, 99), numbered("b", 100, 199), numbered("c", 200, 299), numbered("wide", 300, 10**12))
    table = new_table(shared_ledger, metadata_of(NUMBERS), *adds)
    assert planned(shared_ledger, table, text) == expected


def test_files_without_statistics_are_always_there(shared_ledger: LedgerUnderTest) -> None:
    silent = msgspec.structs.replace(numbered("silent", 0, 0), stats=None)
    table = new_table(shared_ledger, metadata_of(NUMBERS), numbered("a", 0, 99), silent)
    assert planned(shared_ledger, table, "id = 500") == ["silent"]


def test_a_partition_is_tried_once_and_its_files_found(shared_ledger: LedgerUnderTest) -> None:
    metadata = metadata_of(struct(day="date", id="long"), ["day"])
    days = ["2024-01-01", "2024-01-02", None]
    adds = [numbered(f"{day}-{n}", n * 10, n * 10 + 9, partition_values={"day": day}) for day in days for n in range(3)]
    table = new_table(shared_ledger, metadata, *adds)

    def found(text: str) -> list[str]:
        predicate = parse(text, struct(day="date", id="long"))
        batches = shared_ledger.reader.plan(table, 0, predicate, metadata)
        return [path for batch in batches for path in batch.column("path").to_pylist()]

    assert found("day = DATE '2024-01-02' AND id BETWEEN 10 AND 19") == ["2024-01-02-1"]
    assert found("day IS NULL") == ["None-0", "None-1", "None-2"]
    assert found("day > DATE '2024-01-02'") == []
    # A partition that comes later is known too.
    shared_ledger.append(table, numbered("new", 10, 19, partition_values={"day": "2024-01-03"}))
    predicate = parse("day > DATE '2024-01-02'", struct(day="date", id="long"))
    (batch,) = shared_ledger.reader.plan(table, 1, predicate, metadata)
    assert batch.column("path").to_pylist() == ["new"]


def test_a_column_indexed_anew_forgets_what_it_knew_of_another(shared_ledger: LedgerUnderTest) -> None:
    schema = struct(id="long", other="long", third="long")
    table = new_table(shared_ledger, metadata_of(schema, indexed=["id", "other"]), numbered("a", 0, 9))
    shared_ledger.append(table, metadata_of(schema, indexed=["third", "id"]))
    shared_ledger.append(table, numbered("b", 100, 109))
    # The old file was known by the number of another column: it may hold anything now.
    assert planned(shared_ledger, table, "id = 500") == ["a"]
    assert planned(shared_ledger, table, "id = 105") == ["a", "b"]
    assert planned(shared_ledger, table, "id = 5", version=0) == ["a"]


def test_keys_of_another_type_are_not_compared(shared_ledger: LedgerUnderTest) -> None:
    table = new_table(shared_ledger, metadata_of(struct(id="long")), numbered("a", 0, 9))
    shared_ledger.append(table, metadata_of(struct(id="double")))
    assert planned(shared_ledger, table, "id = 5.5D") == ["a"]
    assert planned(shared_ledger, table, "id = 5", version=0) == ["a"]


def test_clustering_columns_are_indexed(shared_ledger: LedgerUnderTest) -> None:
    schema = struct(a="long", b="long", id="long")
    table = new_table(shared_ledger, metadata_of(schema), numbered("before", 0, 9))
    clustered = DomainMetadata(
        domain="delta.clustering",
        configuration='{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}',
        removed=False,
    )
    shared_ledger.append(table, clustered)
    shared_ledger.append(table, numbered("x", 0, 9), numbered("y", 10, 19))
    assert planned(shared_ledger, table, "id = 15") == ["before", "y"]


def test_a_schema_nobody_can_read_is_carried_and_indexes_nothing(shared_ledger: LedgerUnderTest) -> None:
    odd = Metadata(id="0", schema_string="no schema", partition_columns=(), configuration={})
    table = new_table(shared_ledger, odd, numbered("a", 0, 9))
    assert shared_ledger.append(table, numbered("b", 0, 9)) == 1


def test_a_draft_that_only_removes_needs_no_place(shared_ledger: LedgerUnderTest) -> None:
    table = new_table(shared_ledger, metadata_of(NUMBERS), numbered("a", 0, 9))
    assert shared_ledger.commit(draft(table.name, remove("a")))[0].version == 1
    assert planned(shared_ledger, table, "id = 5") == []
    assert planned(shared_ledger, table, "id = 5", version=0) == ["a"]
