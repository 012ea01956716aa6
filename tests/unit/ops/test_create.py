"""Creating and finding tables, and connecting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import deltasql
from client_samples import SCHEMA, dump
from deltasql.client import Lake, Table
from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    InvalidInputError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from deltasql.storage.locations import open_store

pytestmark = pytest.mark.unit


def test_a_new_table_has_its_folder_below_the_root_and_in_commit_timestamps(lake: Lake) -> None:
    table = lake.create_table("a.b c.d", SCHEMA, properties={"owner": "me"}, description="words")
    assert table.location == f"{lake.root}/a/b%20c/d"
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.schema) == (0, SCHEMA)
    assert snapshot.metadata.configuration == {"delta.enableInCommitTimestamps": "true", "owner": "me"}
    assert snapshot.metadata.description == "words"
    assert snapshot.protocol.writer_features == ("inCommitTimestamp", "invariants")
    (entry,) = table.history()
    assert entry.commit_info["inCommitTimestamp"] == entry.timestamp == snapshot.timestamp
    assert [found.name for found in lake.tables()] == ["a.b c.d"]


def test_a_delta_schema_string_does_as_well(lake: Lake) -> None:
    text = '{"type":"struct","fields":[{"name":"n","type":"timestamp_ntz","nullable":true,"metadata":{}}]}'
    table = lake.create_table("t", text)
    assert table.snapshot().schema == pa.schema([("n", pa.timestamp("us"))])
    assert table.snapshot().protocol.reader_features == ("timestampNtz",)


def test_in_commit_timestamps_can_be_left_out(lake: Lake) -> None:
    table = lake.create_table("t", SCHEMA, properties={"delta.enableInCommitTimestamps": "false"})
    assert table.snapshot().metadata.configuration == {}
    assert "inCommitTimestamp" not in table.history()[0].commit_info


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", "a/b", "a\\b", "a\0b", " a", "a. b", "\ud800", "x" * 600, "..", "a.\n", 7]
)
def test_names_that_cannot_be_are_refused(lake: Lake, ledger: str, name: str) -> None:
    before = dump(ledger)
    with pytest.raises(InvalidInputError) as caught:
        lake.create_table(name, SCHEMA)
    assert caught.value.field == "name"
    assert dump(ledger) == before


Refused = Callable[[Lake], object]


def delta_schema(kind: str, mark: str = "comment") -> str:
    return f'{{"type":"struct","fields":[{{"name":"a","type":{kind},"nullable":true,"metadata":{{"{mark}":"1"}}}}]}}'


CREATIONS: list[tuple[str, Refused, type[DeltaSqlError], str]] = [
    ("taken", lambda lake: lake.create_table("sales.orders", SCHEMA), TableExistsError, "name"),
    ("no schema", lambda lake: lake.create_table("t", cast("str", 7)), InvalidInputError, "schema"),
    ("no JSON", lambda lake: lake.create_table("t", "{"), SchemaError, "schema"),
    ("half a character", lambda lake: lake.create_table("t", '{"type":"\ud800"}'), SchemaError, "schema"),
    ("no columns", lambda lake: lake.create_table("t", pa.schema([])), SchemaError, "schema"),
    ("variant", lambda lake: lake.create_table("t", delta_schema('"variant"')), UnsupportedError, "schema"),
    *(
        (mark, lambda lake, mark=mark: lake.create_table("t", delta_schema('"long"', mark)), UnsupportedError, "schema")
        for mark in ("delta.generationExpression", "delta.identity.start", "delta.invariants", "CURRENT_DEFAULT")
    ),
    ("unsigned", lambda lake: lake.create_table("t", pa.schema([("u", pa.uint8())])), SchemaError, "u"),
    ("partition", lambda lake: lake.create_table("t", SCHEMA, partition_by=["x"]), SchemaError, "partition_by"),
    ("text", lambda lake: lake.create_table("t", SCHEMA, partition_by="day"), InvalidInputError, "partition_by"),
    ("twice", lambda lake: lake.create_table("t", SCHEMA, partition_by=["day", "DAY"]), SchemaError, "partition_by"),
    ("all", lambda lake: lake.create_table("t", SCHEMA, partition_by=SCHEMA.names), SchemaError, "partition_by"),
    (
        "property",
        lambda lake: lake.create_table("t", SCHEMA, properties={"delta.appendOnly": "x"}),
        InvalidInputError,
        "properties.delta.appendOnly",
    ),
]


@pytest.mark.parametrize(("call", "kind", "field"), [c[1:] for c in CREATIONS], ids=[c[0] for c in CREATIONS])
def test_creations_that_are_refused_change_nothing(
    lake: Lake, ledger: str, table: Table, call: Refused, kind: type[DeltaSqlError], field: str
) -> None:
    before = dump(ledger)
    with pytest.raises(kind) as caught:
        call(lake)
    assert caught.value.field == field
    assert caught.value.hint
    assert dump(ledger) == before


def test_a_folder_that_holds_a_delta_table_is_not_written_over(lake: Lake) -> None:
    open_store(f"{lake.root}/t").put(f"_delta_log/{0:020d}.json", b"{}\n")
    with pytest.raises(TableExistsError, match="adopt"):
        lake.create_table("t", SCHEMA)


def test_an_unknown_table_is_named(lake: Lake) -> None:
    with pytest.raises(TableNotFoundError, match="'nope'") as caught:
        lake.table("nope")
    assert "table list" in (caught.value.hint or "")


def test_the_root_is_kept_and_another_one_refused(ledger: str, tmp_path: Path) -> None:
    with deltasql.connect(ledger) as first, pytest.raises(ConfigError) as caught:
        first.create_table("t", SCHEMA)
    assert caught.value.field == "root"
    root = (tmp_path / "warehouse").as_uri()
    with deltasql.connect(ledger, root=f"{root}/") as second:
        assert second.root == root
    with deltasql.connect(ledger) as third:
        assert third.root == root
    with pytest.raises(ConfigError, match="root"):
        deltasql.connect(ledger, root=str(tmp_path / "other"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "lake.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/x",
        "mysql://x/y",
        "sqlite:///a\0b",
    ],
)
def test_what_is_no_ledger_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        deltasql.connect(url)
    assert caught.value.field == "ledger"
    assert "sqlite:///" in (caught.value.hint or "")


def test_a_bad_root_leaves_no_ledger_behind(ledger: str) -> None:
    with pytest.raises(ConfigError):
        deltasql.connect(ledger, root="gopher://x")
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


def test_an_unwritable_root_is_told_at_once_and_nothing_is_created(ledger: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with deltasql.connect(ledger, root=str(tmp_path / "file" / "warehouse")) as lake:
        before = dump(ledger)
        with pytest.raises(DeltaSqlError) as caught:
            lake.create_table("t", SCHEMA)
        assert caught.value.hint
        assert dump(ledger) == before
