"""Hostile names and values through the client, on every ledger that can be opened by URL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.client import Lake, Table
from deltasql.errors import DeltaSqlError, InvalidInputError, MalformedLogError, VersionNotFoundError
from deltasql.protocol.actions import AddFile
from hostile_values import DEEP, HOSTILE, LONE, LONG
from ledger_backends import LedgerUnderTest
from ledger_held import held_open
from ledger_samples import add

pytestmark = pytest.mark.contract

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def lake(shared_ledger: LedgerUnderTest, tmp_path: Path) -> Iterator[Lake]:
    assert shared_ledger.url is not None
    with held_open(shared_ledger), deltasql.connect(shared_ledger.url, root=str(tmp_path / "warehouse")) as lake:
        yield lake


NAMES = [
    *(
        "it's",
        'q"q',
        "b`b",
        "x'); DROP TABLE dl_tables; --",
        "%s",
        "?",
        "$1",
        ":x",
        "{x}",
        "#f",
        "a%2e%2e",
        "~",
        "NULL",
    ),
    *("😀", "\u202eabc", "a\u0301", "A", "\ufeffbom", "a b", "Größe.表"),
]


def test_hostile_names_lead_to_tables_of_their_own(lake: Lake) -> None:
    for number, name in enumerate(NAMES):
        table = lake.create_table(name, SCHEMA)
        assert table.append(pa.table({"id": [number], "day": [name]}, schema=SCHEMA)).version == 1
    assert [table.name for table in lake.tables()] == sorted(NAMES)
    assert len({table.location for table in lake.tables()}) == len(NAMES)
    for number, name in enumerate(NAMES):
        assert lake.table(name).to_arrow().to_pylist() == [{"id": number, "day": name}]
    assert lake.mirror().ok


def test_hostile_values_are_found_and_deleted_by_predicate(lake: Lake) -> None:
    texts = [text[:60] for text in HOSTILE.values()]
    table = lake.create_table("t", SCHEMA, partition_by=["day"])
    table.append(pa.table({"id": range(len(texts)), "day": texts}, schema=SCHEMA))
    for number, text in enumerate(texts):
        literal = text.replace("\\", "\\\\").replace("'", "\\'")
        assert table.to_arrow(filter=f"day = '{literal}'").column("id").to_pylist() == [number]
        if number % 5 == 0:
            table.delete(f"day = '{literal}'")
    left = [{"id": number, "day": text} for number, text in enumerate(texts) if number % 5]
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == left


def test_ten_thousand_columns_are_a_table(lake: Lake) -> None:
    schema = pa.schema([(f"c{n}", pa.int64()) for n in range(10_000)])
    table = lake.create_table("wide", schema)
    assert table.commit([add("a")]).version == 1
    assert lake.table("wide").snapshot().schema.names == schema.names
    assert table.snapshot().files().column("path").to_pylist() == ["a"]


def test_a_comment_of_ten_megabytes_is_part_of_a_schema(lake: Lake) -> None:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "ü" * 5_000_000}}
    table = lake.create_table("big", json.dumps({"type": "struct", "fields": [field]}, ensure_ascii=False))
    assert table.commit([add("a")]).version == 1
    snapshot = lake.table("big").snapshot()
    assert len(snapshot.metadata.schema_string.encode()) > 10_000_000
    assert snapshot.structure.fields[0].metadata["comment"] == "ü" * 5_000_000


def commit(action: AddFile, **values: Any) -> Callable[[Table], object]:
    return lambda table: table.commit([action], **values)


CALLS: dict[str, tuple[str, Callable[[Table], object]]] = {
    "a negative size": ("actions[0]", commit(add("a", size=-1))),
    "a size of 65 bits": ("actions[0]", commit(add("a", size=2**63))),
    "deep statistics": ("actions[0].stats", commit(add("a", stats=DEEP))),
    "not a number": ("actions[0].stats", commit(add("a", stats='{"minValues":{"a":NaN}}'))),
    "infinity": ("actions[0].stats", commit(add("a", stats='{"minValues":{"a":-Infinity}}'))),
    "a key twice": ("actions[0].stats", commit(add("a", stats='{"a":1,"a":2}'))),
    "no object": ("actions[0].stats", commit(add("a", stats="[]"))),
    "a way out": ("path", commit(add("../a"))),
    "an escaped way out": ("path", commit(add("a/%2e%2e/%2e%2e/b"))),
    "somebody else's file": ("path", commit(add("/etc/passwd"))),
    "somebody else's bucket": ("path", commit(add("s3://other/a"))),
    "a file of the log": ("path", commit(add("_delta_log/a"))),
    "an escaped NUL": ("path", commit(add("a%00"))),
    "escaped bytes that are no text": ("path", commit(add("%ff%fe"))),
    "half an escape": ("path", commit(add("a%2"))),
    "a lone surrogate": ("path", commit(add(LONE))),
    "a partition that is none": ("actions[0].partition_values", commit(add("a", partition_values={"'": "x"}))),
    "a token too long": ("token", commit(add("a"), token=LONG)),
    "an application too long": ("actions[1]", commit(add("a"), txn=(LONG, 1))),
    "a count of 65 bits": ("actions[1]", commit(add("a"), txn=("app", 2**63))),
    "no application": ("txn", commit(add("a"), txn=(5, 5))),
    "no level": ("isolation", commit(add("a"), isolation="'; --")),
    "a version before the first": ("read_version", commit(add("a"), read_version=-1)),
    "the last version there can be": ("read_version", commit(add("a"), read_version=2**63 - 1)),
    "half a version": ("read_version", commit(add("a"), read_version=0.5)),
    "a version as text": ("read_version", commit(add("a"), read_version="0")),
    "a version of 65 bits": ("read_version", commit(add("a"), read_version=2**63)),
    "a snapshot before the first": ("version", lambda table: table.snapshot(-1)),
    "a snapshot at the last version there can be": ("version", lambda table: table.snapshot(2**63 - 1)),
    "a snapshot of 65 bits": ("version", lambda table: table.to_arrow(version=2**63)),
    "an instant that is none": ("timestamp", lambda table: table.snapshot(timestamp="'; --")),
    "a token that no one can have used": ("token", lambda table: table.version_of(LONE)),
}
OTHER_TYPES: dict[str, tuple[str, Callable[[Table], object]]] = {
    "a size in words": ("actions[0]", commit(add("a", size="1"))),
    "no path": ("actions[0]", commit(add(None))),  # pyright: ignore[reportArgumentType]
    "a snapshot by text": ("version", lambda table: table.snapshot("1")),  # pyright: ignore[reportArgumentType]
    "a history without an end": ("limit", lambda table: table.history(2**63)),
}


def check_call(ledger: LedgerUnderTest, table: Table, field: str, call: Callable[[Table], object]) -> None:
    before = ledger.facts()
    with pytest.raises(DeltaSqlError) as caught:
        call(table)
    assert caught.value.field == field
    assert isinstance(caught.value, InvalidInputError | MalformedLogError | VersionNotFoundError)
    assert ledger.facts() == before


def test_a_call_that_cannot_be_is_refused_by_name(lake: Lake, shared_ledger: LedgerUnderTest) -> None:
    table = lake.create_table("t", SCHEMA)
    for field, call in CALLS.values():
        check_call(shared_ledger, table, field, call)


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_a_value_of_another_type_is_refused_by_name(lake: Lake, shared_ledger: LedgerUnderTest, kind: str) -> None:
    table = lake.create_table("t", SCHEMA)
    table.commit([add("more")])
    check_call(shared_ledger, table, *OTHER_TYPES[kind])
