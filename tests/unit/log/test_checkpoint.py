"""The Parquet of a classic checkpoint: names, types, rows, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import LedgerCorruptError, MalformedLogError
from deltasql.log import checkpoint
from deltasql.log.checkpoint import write_classic
from deltasql.log.target import CheckpointState
from deltasql.protocol.actions import DomainMetadata, Format, Metadata, SetTransaction, TableProtocol
from log_samples import SCHEMA_STRING, file_row, files, state, tombstones, with_property

pytestmark = pytest.mark.unit

VECTOR = {"storage_type": "u", "path_or_inline_dv": "ab^-aqEH", "offset": 1, "size_in_bytes": 36, "cardinality": 2}

# The leaves of a checkpoint as Delta Spark 4.4 writes them, statistics as structs and the unused maxRowIndex aside.
LEAVES = [
    "txn.appId",
    "txn.version",
    "txn.lastUpdated",
    "add.path",
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.size",
    "add.modificationTime",
    "add.dataChange",
    "add.tags.key_value.key",
    "add.tags.key_value.value",
    "add.deletionVector.storageType",
    "add.deletionVector.pathOrInlineDv",
    "add.deletionVector.offset",
    "add.deletionVector.sizeInBytes",
    "add.deletionVector.cardinality",
    "add.baseRowId",
    "add.defaultRowCommitVersion",
    "add.clusteringProvider",
    "add.stats",
    "remove.path",
    "remove.deletionTimestamp",
    "remove.dataChange",
    "remove.extendedFileMetadata",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
    "remove.size",
    "remove.deletionVector.storageType",
    "remove.deletionVector.pathOrInlineDv",
    "remove.deletionVector.offset",
    "remove.deletionVector.sizeInBytes",
    "remove.deletionVector.cardinality",
    "remove.baseRowId",
    "remove.defaultRowCommitVersion",
    "metaData.id",
    "metaData.name",
    "metaData.description",
    "metaData.format.provider",
    "metaData.format.options.key_value.key",
    "metaData.format.options.key_value.value",
    "metaData.schemaString",
    "metaData.partitionColumns.list.element",
    "metaData.configuration.key_value.key",
    "metaData.configuration.key_value.value",
    "metaData.createdTime",
    "protocol.minReaderVersion",
    "protocol.minWriterVersion",
    "protocol.readerFeatures.list.element",
    "protocol.writerFeatures.list.element",
    "domainMetadata.domain",
    "domainMetadata.configuration",
    "domainMetadata.removed",
]


def parquet(of: CheckpointState) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(write_classic(of).data))


def rows(of: CheckpointState) -> list[dict[str, Any]]:
    """The rows without their nulls, so that each shows the one action it holds."""
    return [{name: value for name, value in row.items() if value is not None} for row in parquet(of).read().to_pylist()]


def test_columns_and_types_are_those_of_delta_spark() -> None:
    schema = parquet(state()).schema
    columns = [schema.column(index) for index in range(len(schema))]
    assert [column.path for column in columns] == LEAVES
    physical = {column.path: column.physical_type for column in columns}
    assert physical["add.size"] == "INT64"
    assert physical["add.dataChange"] == "BOOLEAN"
    assert physical["protocol.minReaderVersion"] == "INT32"
    assert physical["add.deletionVector.sizeInBytes"] == "INT32"
    assert physical["add.deletionVector.cardinality"] == "INT64"
    texts = [column for column in columns if column.physical_type == "BYTE_ARRAY"]
    assert {column.logical_type.type for column in texts} == {"STRING"}


def test_a_row_holds_one_action_whole() -> None:
    found = rows(
        state(
            protocol=TableProtocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=("deletionVectors",),
                writer_features=("deletionVectors", "domainMetadata"),
            ),
            metadata=Metadata(
                id="0f0e",
                name="n",
                description="d",
                format=Format(options={"o": "1"}),
                schema_string=SCHEMA_STRING,
                partition_columns=("p",),
                configuration={"a": "b"},
                created_time=5,
            ),
            transactions=[SetTransaction(app_id="app", version=7, last_updated=9)],
            domains=[DomainMetadata(domain="dom", configuration="{}", removed=False)],
            files=[
                files(
                    file_row(
                        "a.parquet",
                        partition_values=[("p", None)],
                        stats='{"numRecords":3}',
                        tags=[("k", "v")],
                        deletion_vector=VECTOR,
                        base_row_id=11,
                        default_row_commit_version=12,
                        clustering_provider="liquid",
                    )
                )
            ],
            tombstones=[
                tombstones(
                    {
                        "path": "b.parquet",
                        "deletion_timestamp": 6,
                        "data_change": True,
                        "extended_file_metadata": True,
                        "partition_values": [("p", "x")],
                        "size": 4,
                        "deletion_vector": VECTOR | {"offset": None},
                        "base_row_id": 13,
                        "default_row_commit_version": 14,
                    }
                )
            ],
            num_tombstones=1,
        )
    )
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH", "offset": 1, "sizeInBytes": 36, "cardinality": 2}
    assert found == [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors", "domainMetadata"],
            }
        },
        {
            "metaData": {
                "id": "0f0e",
                "name": "n",
                "description": "d",
                "format": {"provider": "parquet", "options": [("o", "1")]},
                "schemaString": SCHEMA_STRING,
                "partitionColumns": ["p"],
                "configuration": [("a", "b")],
                "createdTime": 5,
            }
        },
        {"txn": {"appId": "app", "version": 7, "lastUpdated": 9}},
        {"domainMetadata": {"domain": "dom", "configuration": "{}", "removed": False}},
        {
            "add": {
                "path": "a.parquet",
                "partitionValues": [("p", None)],
                "size": 10,
                "modificationTime": 1_700_000_000_000,
                "dataChange": False,
                "tags": [("k", "v")],
                "deletionVector": vector,
                "baseRowId": 11,
                "defaultRowCommitVersion": 12,
                "clusteringProvider": "liquid",
                "stats": '{"numRecords":3}',
            }
        },
        {
            "remove": {
                "path": "b.parquet",
                "deletionTimestamp": 6,
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": [("p", "x")],
                "size": 4,
                "deletionVector": vector | {"offset": None},
                "baseRowId": 13,
                "defaultRowCommitVersion": 14,
            }
        },
    ]


def test_absent_lists_and_vectors_are_null_and_removed_domains_are_left_out() -> None:
    removed = DomainMetadata(domain="gone", configuration="", removed=True)
    protocol, metadata, add = rows(state(domains=[removed]))
    assert protocol["protocol"]["readerFeatures"] is None
    assert protocol["protocol"]["writerFeatures"] is None
    assert metadata["metaData"]["name"] is None
    assert add["add"]["deletionVector"] is None
    assert add["add"]["tags"] is None
    assert add["add"]["partitionValues"] == []


@pytest.mark.parametrize(("value", "written"), [("false", False), ("FALSE", False), ("true", True)])
def test_statistics_are_written_unless_the_table_says_no(value: str, written: bool) -> None:
    found = rows(
        state(
            metadata=with_property("delta.checkpoint.writeStatsAsJson", value),
            files=[files(file_row("a", stats="{}"))],
        )
    )
    assert ("stats" in found[-1]["add"]) is written


@pytest.mark.parametrize(
    ("codec", "found"),
    [
        (None, "SNAPPY"),
        ("zstd", "ZSTD"),
        ("GZIP", "GZIP"),
        ("lz4_raw", "LZ4"),
        ("uncompressed", "UNCOMPRESSED"),
        ("lzo", "SNAPPY"),
    ],
)
def test_the_tables_codec_is_used_where_parquet_has_it(codec: str | None, found: str) -> None:
    metadata = with_property("delta.parquet.compression.codec", codec) if codec else state().metadata
    group = parquet(state(metadata=metadata)).metadata.row_group(0)
    assert {group.column(index).compression for index in range(group.num_columns)} == {found}


def test_batches_are_taken_one_by_one_and_gathered_into_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "ROW_GROUP_ROWS", 10)
    made: list[int] = []
    written: list[int] = []

    def batches() -> Iterator[pa.Table]:
        for number in range(12):
            made.append(number)
            # All but the few rows of one row group have been written by the time the next batch is asked for.
            assert len(made) * 4 + 2 - sum(written) <= 14
            yield files(*(file_row(f"{number}-{row}") for row in range(4)))

    write_table = pq.ParquetWriter.write_table

    def counted(self: pq.ParquetWriter, table: pa.Table, *rest: Any) -> None:
        written.append(table.num_rows)
        write_table(self, table, *rest)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", counted)
    footer = parquet(state(files=batches(), num_files=48)).metadata
    assert [footer.row_group(index).num_rows for index in range(footer.num_row_groups)] == [10, 12, 12, 12, 4]


def test_a_table_without_files_has_a_checkpoint() -> None:
    made = write_classic(state(files=[], num_files=0))
    assert (made.actions, made.files) == (2, 0)


def test_batches_may_be_chunked_sliced_and_of_large_strings() -> None:
    whole = files(*(file_row(f"{n}", deletion_vector=VECTOR if n % 2 else None) for n in range(6)))
    large = whole.set_column(0, "path", whole.column("path").cast(pa.large_string()))
    parts = [pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2)]), large.slice(3, 3)]
    adds = [row["add"] for row in rows(state(files=parts, num_files=6)) if "add" in row]
    assert [(add["path"], add["deletionVector"] is not None) for add in adds] == [
        (f"{n}", bool(n % 2)) for n in range(6)
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_files": 2}, "files"),
        ({"num_files": 0}, "files"),
        ({"files": []}, "files"),
        ({"num_tombstones": 1}, "tombstones"),
        ({"tombstones": [tombstones({"path": "x", "data_change": True})]}, "tombstones"),
    ],
)
def test_a_count_that_the_ledger_did_not_promise_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(LedgerCorruptError) as caught:
        write_classic(state(**changes))
    assert caught.value.field == field
    assert caught.value.hint


@pytest.mark.parametrize("name", ["path", "partition_values", "size", "modification_time"])
def test_a_file_without_what_readers_need_is_refused(name: str) -> None:
    with pytest.raises(LedgerCorruptError) as caught:
        write_classic(state(files=[files(file_row("a") | {name: None})]))
    assert caught.value.field == name


def test_a_file_that_lost_rows_on_its_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_table = pq.ParquetWriter.write_table

    def lossy(self: pq.ParquetWriter, table: pa.Table, *rest: Any) -> None:
        write_table(self, table.slice(1), *rest)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", lossy)
    with pytest.raises(MalformedLogError, match="holds 2 of 3 actions"):
        write_classic(state())
