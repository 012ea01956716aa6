"""Commits as bytes and checkpoints of every kind as actions."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import MalformedLogError, StorageUnavailableError, UnsupportedError, VersionNotFoundError
from deltasql.log.checkpoint import CHECKPOINT, write_classic
from deltasql.log.reader import read_checkpoint, read_commits
from deltasql.log.segment import CheckpointFiles, list_segment
from deltasql.protocol.actions import (
    Action,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.jsonlog import encode_commit
from deltasql.protocol.paths import checkpoint_name, checkpoint_part_name, checkpoint_v2_name, commit_name
from deltasql.protocol.replay import Replay
from deltasql.storage.memory import MemoryStore
from log_samples import SCHEMA_STRING, state, state_of

pytestmark = pytest.mark.unit

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
VECTOR = DeletionVector(storage_type="u", path_or_inline_dv="ab^-aqEH", offset=1, size_in_bytes=36, cardinality=2)

# One of everything a checkpoint can hold, every field set or absent.
ACTIONS: list[Action] = [
    TableProtocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("domainMetadata",),
    ),
    Metadata(
        id="0f0e",
        name="n",
        description="d",
        format=Format(options={"o": "1"}),
        schema_string=SCHEMA_STRING,
        partition_columns=("p",),
        configuration={"a": "b"},
        created_time=5,
    ),
    SetTransaction(app_id="app", version=7, last_updated=9),
    SetTransaction(app_id="other", version=2**62),
    DomainMetadata(domain="dom", configuration='{"a":1}', removed=False),
    AddFile(
        path="p=%20/a.parquet",
        partition_values={"p": " ", "q": None},
        size=2**40,
        modification_time=6,
        data_change=False,
        stats='{"numRecords": 1.0}',
        tags={"k": "v", "null": None},
        deletion_vector=VECTOR,
        base_row_id=11,
        default_row_commit_version=12,
        clustering_provider="liquid",
    ),
    AddFile(path="b\x1fü\U0001f600.parquet", size=0, modification_time=0, data_change=False),
    RemoveFile(
        path="c.parquet",
        deletion_timestamp=8,
        data_change=False,
        extended_file_metadata=True,
        partition_values={"p": None},
        size=3,
        deletion_vector=msgspec.structs.replace(VECTOR, offset=None),
        base_row_id=13,
        default_row_commit_version=14,
    ),
    RemoveFile(path="d.parquet", data_change=False),
]


def by_text(actions: list[Action]) -> list[bytes]:
    """Actions as a set that can be compared and shown: their order in a checkpoint means nothing."""
    return sorted(encode_commit([action]) for action in actions)


def classic(actions: list[Action]) -> bytes:
    return write_classic(state_of(Replay().apply(actions), 5)).data


def put(store: MemoryStore, files: dict[str, bytes]) -> CheckpointFiles:
    for name, data in files.items():
        store.put(f"_delta_log/{name}", data)
    return list_segment(store).checkpoints[-1]


def read(files: dict[str, bytes]) -> list[Action]:
    store = MemoryStore()
    return read_checkpoint(store, put(store, files))


def parquet(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def columns(data: bytes, *names: str) -> bytes:
    """A checkpoint's rows of these actions alone, as a sidecar holds them."""
    table = pq.read_table(pa.BufferReader(data)).select(names)
    keep = [any(value is not None for value in row.values()) for row in table.to_pylist()]
    sink = io.BytesIO()
    pq.write_table(table.filter(keep), sink)
    return sink.getvalue()


# -- commits --------------------------------------------------------------------------------------------------------


def log_of(count: int) -> MemoryStore:
    store = MemoryStore()
    for version in range(count):
        store.put(f"_delta_log/{commit_name(version)}", f"{version}\n".encode())
    return store


@pytest.mark.parametrize(("start", "end"), [(0, 39), (7, 7), (15, 17), (3, 2)])
def test_commits_come_in_order_both_ends_included(start: int, end: int) -> None:
    store = log_of(40)
    assert list(read_commits(store, list_segment(store), start, end)) == [
        (version, f"{version}\n".encode()) for version in range(start, end + 1)
    ]


@pytest.mark.parametrize(("start", "end", "missing"), [(0, 5, 5), (-1, 3, -1), (2, 2**63, 5)])
def test_a_version_without_a_commit_is_refused_before_any_is_read(start: int, end: int, missing: int) -> None:
    store = log_of(5)
    segment = list_segment(store)
    store.fail_next("get", AssertionError("nothing may be read"))
    with pytest.raises(VersionNotFoundError, match=f"version {missing}") as caught:
        read_commits(store, segment, start, end)
    assert caught.value.field == "version"


def test_a_commit_that_vanishes_is_told() -> None:
    store = log_of(5)
    segment = list_segment(store)
    store.delete(f"_delta_log/{commit_name(3)}")
    with pytest.raises(MalformedLogError, match=commit_name(3)):
        list(read_commits(store, segment, 0, 4))


def test_a_store_that_fails_is_passed_on() -> None:
    store = log_of(5)
    store.fail_next("get", StorageUnavailableError("no answer"), skip=2)
    with pytest.raises(StorageUnavailableError):
        list(read_commits(store, list_segment(store), 0, 4))


def test_reading_may_be_left_half_way() -> None:
    store = log_of(40)
    reading = read_commits(store, list_segment(store), 0, 39)
    assert next(reading) == (0, b"0\n")
    assert next(reading) == (1, b"1\n")


# -- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_classic_checkpoint_gives_back_what_was_written() -> None:
    assert by_text(read({checkpoint_name(5): classic(ACTIONS)})) == by_text(ACTIONS)


def test_a_checkpoint_in_parts_is_read_whole() -> None:
    data = classic(ACTIONS)
    parts = [
        columns(data, "add"),
        columns(data, "remove", "txn"),
        columns(data, "protocol", "metaData", "domainMetadata"),
    ]
    assert by_text(
        read({checkpoint_part_name(5, number, 3): part for number, part in enumerate(parts, start=1)})
    ) == by_text(ACTIONS)


MANIFEST = UnknownAction("checkpointMetadata", {"version": 5, "tags": {}})


def sidecar(path: str) -> UnknownAction:
    return UnknownAction("sidecar", {"path": path, "sizeInBytes": 1, "modificationTime": 1, "tags": {}})


@pytest.mark.parametrize(
    "path", ["s%201.parquet", "_sidecars/s%201.parquet", "s3://b/t/_delta_log/_sidecars/s%201.parquet"]
)
def test_a_v2_checkpoint_in_json_is_read_with_its_sidecars(path: str) -> None:
    data = classic(ACTIONS)
    others = [action for action in ACTIONS if not isinstance(action, AddFile | RemoveFile)]
    assert by_text(
        read(
            {
                checkpoint_v2_name(5, UUID, "json"): encode_commit(
                    [MANIFEST, *others, sidecar(path), sidecar("s2.parquet")]
                ),
                "_sidecars/s 1.parquet": columns(data, "add"),
                "_sidecars/s2.parquet": columns(data, "remove"),
                "_sidecars/of-another-checkpoint.parquet": b"",
            }
        )
    ) == by_text(ACTIONS)


@pytest.mark.parametrize("name", [checkpoint_v2_name(5, UUID), checkpoint_name(5)])
def test_a_v2_checkpoint_in_parquet_is_read_with_its_sidecars(name: str) -> None:
    data = classic(ACTIONS)
    text_map = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        [
            *(field for field in CHECKPOINT if field.name not in {"add", "remove"}),
            ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", text_map)])),
            ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("tags", text_map)])),
        ]
    )
    rows = pq.read_table(pa.BufferReader(data)).select(
        [name for name in CHECKPOINT.names if name not in {"add", "remove"}]
    )
    extra = [{"checkpointMetadata": {"version": 5, "tags": []}}, {"sidecar": {"path": "s.parquet", "sizeInBytes": 1}}]
    assert by_text(
        read(
            {
                name: parquet([*rows.to_pylist(), *extra], schema),
                "_sidecars/s.parquet": columns(data, "add", "remove"),
            }
        )
    ) == by_text(ACTIONS)


def test_a_v2_checkpoint_may_hold_its_files_itself() -> None:
    data = encode_commit([MANIFEST, *ACTIONS])
    assert by_text(read({checkpoint_v2_name(5, UUID, "json"): data})) == by_text(ACTIONS)


def test_fields_of_later_releases_are_kept_and_parsed_copies_left_out() -> None:
    add = pa.struct(
        [
            *CHECKPOINT.field("add").type,
            ("stats_parsed", pa.struct([("minValues", pa.struct([("a.b", pa.timestamp("us"))]))])),
            ("partitionValues_parsed", pa.struct([("d", pa.date32())])),
            ("newNumber", pa.int64()),
            ("newList", pa.list_(pa.struct([("x", pa.string())]))),
            ("newEmpty", pa.timestamp("us")),
        ]
    )
    schema = pa.schema(
        [
            *(pa.field("add", add) if field.name == "add" else field for field in CHECKPOINT),
            ("newAction", pa.struct([("a", pa.int64()), ("b", pa.map_(pa.string(), pa.string()))])),
        ]
    )
    plain = pq.read_table(pa.BufferReader(classic(ACTIONS[:2]))).to_pylist()
    body = {"path": "a", "partitionValues": [], "size": 1, "modificationTime": 2, "dataChange": False}
    new = {
        "stats_parsed": {"minValues": {"a.b": 1}},
        "partitionValues_parsed": {"d": 1},
        "newNumber": 3,
        "newList": [{"x": "y"}, None],
    }
    data = parquet([*plain, {"add": body | new}, {"newAction": {"a": 1, "b": [("k", None)]}}], schema)
    new_fields = {"newNumber": 3, "newList": [{"x": "y"}, None]}
    expected: list[Action] = [
        *ACTIONS[:2],
        AddFile(path="a", size=1, modification_time=2, data_change=False, extra=new_fields),
        UnknownAction("newAction", {"a": 1, "b": {"k": None}}),
    ]
    assert by_text(read({checkpoint_name(5): data})) == by_text(expected)


def test_a_value_that_no_commit_could_hold_is_refused() -> None:
    add = pa.struct([*CHECKPOINT.field("add").type, ("digest", pa.binary())])
    schema = pa.schema([pa.field("add", add) if field.name == "add" else field for field in CHECKPOINT])
    with pytest.raises(UnsupportedError, match="bytes"):
        read({checkpoint_name(5): parquet([{"add": {"path": "a", "digest": b"x"}}], schema)})


def test_structs_without_a_single_value_are_no_actions() -> None:
    rows = pq.read_table(pa.BufferReader(classic(ACTIONS[:2]))).to_pylist()
    blank = [row | {"txn": row["txn"] or {"appId": None}} for row in rows]
    assert by_text(read({checkpoint_name(5): parquet(blank, CHECKPOINT)})) == by_text(ACTIONS[:2])


def test_a_checkpoint_of_many_row_groups_is_read_to_its_end() -> None:
    adds: list[Action] = [
        AddFile(path=f"{number}", size=1, modification_time=1, data_change=False) for number in range(500)
    ]
    rows = pq.read_table(pa.BufferReader(classic([*ACTIONS[:2], *adds])))
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=7)
    assert by_text(read({checkpoint_name(5): sink.getvalue()})) == by_text([*ACTIONS[:2], *adds])


# -- what is refused ------------------------------------------------------------------------------------------------


def broken() -> dict[str, dict[str, bytes]]:
    data = classic(ACTIONS)
    v2 = checkpoint_v2_name(5, UUID, "json")
    sidecars = {"_sidecars/s.parquet": columns(data, "add", "remove")}
    no_path = UnknownAction("sidecar", {"sizeInBytes": 1})
    without_path = parquet(
        [*pq.read_table(pa.BufferReader(data)).to_pylist(), {"add": {"path": None, "size": 1}}], CHECKPOINT
    )
    return {
        "empty": {checkpoint_name(5): b""},
        "cut": {checkpoint_name(5): data[:-100]},
        "damaged": {checkpoint_name(5): data[:200] + bytes(200) + data[400:]},
        "no Parquet": {checkpoint_name(5): b"PAR1" * 100},
        "no protocol": {checkpoint_name(5): columns(data, "metaData", "add")},
        "no metaData": {checkpoint_name(5): columns(data, "protocol", "add")},
        "an add without a path": {checkpoint_name(5): without_path},
        "no manifest": {v2: encode_commit(ACTIONS)},
        "two manifests": {v2: encode_commit([MANIFEST, MANIFEST, *ACTIONS])},
        "another version": {v2: encode_commit([UnknownAction("checkpointMetadata", {"version": 4}), *ACTIONS])},
        "manifest that is none": {v2: encode_commit([UnknownAction("checkpointMetadata", 5), *ACTIONS])},
        "cut JSON": {v2: encode_commit([MANIFEST, *ACTIONS])[:-5]},
        "missing sidecar": {v2: encode_commit([MANIFEST, *ACTIONS[:2], sidecar("s.parquet")])},
        "sidecar without a name": {v2: encode_commit([MANIFEST, *ACTIONS[:2], sidecar("x/")])} | sidecars,
        "sidecar without a path": {v2: encode_commit([MANIFEST, *ACTIONS[:2], no_path])} | sidecars,
        "two protocols in parts": {checkpoint_part_name(5, part, 2): data for part in (1, 2)},
    }


@pytest.mark.parametrize("case", list(broken()))
def test_a_broken_checkpoint_is_refused_by_name(case: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        read(broken()[case])
    assert "_delta_log/" in caught.value.message
    assert caught.value.hint


def test_a_store_that_fails_is_no_broken_checkpoint() -> None:
    store = MemoryStore()
    found = put(store, {checkpoint_name(10): write_classic(state(10)).data})
    store.fail_next("get", StorageUnavailableError("no answer"))
    with pytest.raises(StorageUnavailableError):
        read_checkpoint(store, found)
