"""Changes of columns beside Delta Spark: both describe each change alike, and each goes on where the other stopped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import deltasql.spark
from alter_samples import alter, alter_looking, append_merging, rows_of
from deltasql import Lake, Table
from deltasql.ops.alter import (
    draft_add_columns,
    draft_change_column,
    draft_drop_columns,
    draft_enable_feature,
    draft_rename_column,
    draft_widen_column,
)
from deltasql.protocol.actions import CommitInfo, Metadata, TableProtocol
from deltasql.protocol.features import reader_features, writer_features
from deltasql.protocol.jsonlog import decode_commit
from readers.engines import DeltaRs, DeltaRsDataset, DeltaSpark, DuckDb, Polars

pytestmark = pytest.mark.spark

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SHAPE = pa.schema(
    [pa.field("id", pa.int32(), nullable=False), ("s", POINT), ("arr", pa.list_(pa.int32())), ("p", pa.string())]
)
DDL = "id INT NOT NULL, s STRUCT<x: INT, y: STRING>, arr ARRAY<INT>, p STRING"
FIRST = {"id": 1, "s": {"x": 1, "y": "a"}, "arr": [1, None], "p": "u"}

# Each change in Spark's words and in ours.
CHANGES: list[tuple[str, Callable[[Table], int]]] = [
    (
        "ADD COLUMNS (n BIGINT COMMENT 'why' AFTER id, o DATE AFTER n)",
        lambda table: alter(
            table,
            draft_add_columns,
            pa.schema([("n", pa.int64()), ("o", pa.date32())]),
            after="id",
            comments={"n": "why"},
        ),
    ),
    ("ALTER COLUMN id DROP NOT NULL", lambda table: alter(table, draft_change_column, "id", nullable=True)),
    ("ALTER COLUMN n COMMENT 'other'", lambda table: alter(table, draft_change_column, "n", comment="other")),
    (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        lambda table: alter(table, draft_enable_feature, "columnMapping"),
    ),
    ("RENAME COLUMN s.x TO xx", lambda table: alter(table, draft_rename_column, "s.x", "xx")),
    ("RENAME COLUMN p TO part", lambda table: alter(table, draft_rename_column, "p", "part")),
    ("DROP COLUMNS (o, s.y)", lambda table: alter_looking(table, draft_drop_columns, ["o", "s.y"])),
    (
        "ADD COLUMN (s.w STRUCT<q: INT> FIRST)",
        lambda table: alter(
            table, draft_add_columns, pa.schema([("w", pa.struct([("q", pa.int32())]))]), within="s", first=True
        ),
    ),
    (
        "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        lambda table: alter(table, draft_enable_feature, "typeWidening"),
    ),
    ("ALTER COLUMN id TYPE BIGINT", lambda table: alter(table, draft_widen_column, "id", "long")),
    ("ALTER COLUMN arr.element TYPE BIGINT", lambda table: alter(table, draft_widen_column, "arr.element", "long")),
]
# The first rows are version 1, each change is one more.
RENAMED, LAST = 1 + 5, 1 + len(CHANGES)
OLD_ROW = {"id": 1, "n": None, "s": {"w": None, "xx": 1}, "arr": [1, None], "part": "u"}


class Both(NamedTuple):
    lake: Lake
    ours: Table
    theirs: Path


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The same table and changes, made by deltasql and by Delta Spark."""
    folder = tmp_path_factory.mktemp("alter")
    theirs = folder / "theirs"
    name = f"delta.`{theirs}`"
    spark.sql(f"CREATE TABLE {name} ({DDL}) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(1, 'a'), array(1, null), 'u')")
    for sql, _ in CHANGES:
        spark.sql(f"ALTER TABLE {name} {sql}")
    with deltasql.connect(f"sqlite:///{folder}/lake.db", root=str(folder / "lake")) as lake:
        ours = lake.create_table("ours", SHAPE, ["p"], {"delta.enableInCommitTimestamps": "false"})
        ours.append(pa.Table.from_pylist([FIRST], schema=SHAPE))
        for _, change in CHANGES:
            change(ours)
        assert lake.mirror().ok
        yield Both(lake, ours, theirs)


def local(table: Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def described(folder: Path, version: int) -> dict[str, Any]:
    """What a commit says of its change, without what two tables can never have in common."""
    actions = decode_commit((folder / "_delta_log" / f"{version:020}.json").read_bytes())
    (info,) = [action for action in actions if isinstance(action, CommitInfo)]
    metadata = next(action for action in actions if isinstance(action, Metadata))
    protocol = next((action for action in actions if isinstance(action, TableProtocol)), None)
    fields = info.fields
    return {
        "operation": fields["operation"],
        "parameters": {name: _plain(text) for name, text in fields["operationParameters"].items()},
        "schema": _plain(metadata.schema_string),
        "partitions": metadata.partition_columns,
        "configuration": dict(metadata.configuration),
        "readers": protocol and reader_features(protocol),
        "writers": protocol and writer_features(protocol),
    }


def _plain(text: str) -> Any:
    anonymous = re.sub("col-[0-9a-f-]{36}", "col-…", text)
    return json.loads(anonymous) if text[:1] in "[{" else anonymous


@pytest.mark.parametrize("version", range(2, LAST + 1), ids=lambda version: CHANGES[version - 2][0][:30])
def test_each_change_is_described_as_delta_spark_describes_it(both: Both, version: int) -> None:
    assert described(local(both.ours), version) == described(both.theirs, version)


def test_delta_spark_reads_every_version_and_goes_on_in_a_copy(both: Both, spark: SparkSession, tmp_path: Path) -> None:
    reader = DeltaSpark(spark)
    for version in (RENAMED, LAST):
        found = reader.read(str(local(both.ours)), version)
        assert found.to_pylist() == both.ours.to_arrow(version).to_pylist()
        assert both.ours.to_arrow(version).column("id").to_pylist() == [1]
    copy = tmp_path / "copy"
    shutil.copytree(local(both.ours), copy)
    spark.sql(
        f"INSERT INTO delta.`{copy}` (id, arr, part, n, s) "
        "VALUES (5000000000, array(6000000000), 'v', 7, struct(struct(3), 2))"
    )
    shown = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE delta.`{copy}`").collect()}
    assert (shown["id"], shown["s"], shown["arr"]) == ("bigint", "struct<w:struct<q:int>,xx:int>", "array<bigint>")
    found = rows_of(reader.read(str(copy)), "id")
    assert found[0] == OLD_ROW
    assert found[1] == {"id": 5 * 10**9, "n": 7, "s": {"w": {"q": 3}, "xx": 2}, "arr": [6 * 10**9], "part": "v"}
    # And deltasql goes on after Delta Spark.
    again = both.lake.adopt(str(copy), name="copy")
    assert rows_of(again.to_arrow(), "id") == found


def test_deltasql_goes_on_where_delta_spark_stopped(both: Both, spark: SparkSession) -> None:
    table = both.lake.adopt(str(both.theirs), name="theirs")
    assert table.to_arrow().to_pylist() == [OLD_ROW]
    rows = [
        {"id": number, "n": 1, "s": {"xx": number % 100, "w": {"q": 1}}, "arr": [2**40], "part": part}
        for number, part in ((2, "u"), (3, "v"), (2**40, None))
    ]
    table.append(pa.Table.from_pylist(rows, schema=table.snapshot().schema))
    table.delete("s.xx = 2 OR part = 'v'")
    append_merging(table, pa.Table.from_pylist([{"id": 4, "more": {"deep": [1]}}]))
    # A DataFrame too, and back through Spark's own Parquet reader and through the data source.
    ledger = f"sqlite:///{both.theirs.parent}/lake.db"
    deltasql.spark.register(spark)
    nulls = [f"NULL AS {name}" for name in ("s", "arr", "n")]
    frame = spark.createDataFrame([(5, "w")], "id BIGINT, part STRING").selectExpr(
        *("id", "part", "named_struct('deep', array(2L)) AS more"), *nulls
    )
    options = {"ledger": ledger, "table": "theirs"}
    frame.write.format("deltasql").options(**options).mode("append").save()
    wanted = rows_of(table.to_arrow(), "id")
    assert [(row["id"], row["part"], row["more"]) for row in wanted] == [
        *((1, "u", None), (4, None, {"deep": [1]}), (5, "w", {"deep": [2]}), (2**40, None, None))
    ]
    assert wanted[0] == {**OLD_ROW, "more": None}
    assert both.lake.mirror().ok
    place = str(both.theirs)
    native = table.to_spark(spark)
    assert native.columns == list(wanted[0])
    assert rows_of(native.toArrow(), "id") == wanted
    assert rows_of(table.to_spark(spark, version=RENAMED).toArrow(), "id") == table.to_arrow(RENAMED).to_pylist()
    assert rows_of(spark.read.format("deltasql").options(**options).load().toArrow(), "id") == wanted
    assert rows_of(DeltaSpark(spark).read(place), "id") == wanted
    assert rows_of(DuckDb().read(place), "id") == wanted
    assert DeltaSpark(spark).find(place, "id", pa.int64(), 2**40).num_rows == 1


def test_other_readers_of_mapped_and_widened_columns(both: Both) -> None:
    place = both.ours.location
    wanted = both.ours.to_arrow(RENAMED).to_pylist()
    assert wanted[0]["s"] == {"xx": 1, "y": "a"}
    for reader in (DeltaRs(), DuckDb()):
        assert reader.read(place, RENAMED).to_pylist() == wanted, reader.name
    assert DuckDb().read(place).to_pylist() == [OLD_ROW]
    # delta-rs 1.6 does not read widened tables, and neither its dataset nor Polars 2.1 reads mapped ones.
    for refusing, version in ((DeltaRs(), None), (DeltaRsDataset(), RENAMED), (Polars(), RENAMED)):
        with pytest.raises(Exception, match=r"(?i)not (yet )?support|unsupported"):
            refusing.read(place, version)


def test_columns_found_by_id(both: Both, spark: SparkSession) -> None:
    place = both.theirs.parent / "by_id"
    name = f"delta.`{place}`"
    spark.sql(
        f"CREATE TABLE {name} (a INT, s STRUCT<x: INT>, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(2), 3)")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN a TO b")
    table = both.lake.adopt(str(place), name="by_id")
    assert table.to_arrow().to_pylist() == [{"b": 1, "s": {"x": 2}, "p": 3}]
    table.append(pa.Table.from_pylist([{"b": 4, "s": None, "p": 6}], schema=table.snapshot().schema))
    alter(table, draft_rename_column, "s.x", "y")
    assert both.lake.mirror().ok
    wanted = [{"b": 1, "s": {"y": 2}, "p": 3}, {"b": 4, "s": None, "p": 6}]
    assert rows_of(DeltaSpark(spark).read(str(place)), "b") == wanted
    assert rows_of(table.to_spark(spark).toArrow(), "b") == wanted
    # Ids alone decide: a file whose names are others is read all the same.
    for add in table.snapshot().adds():
        _rename_columns(place / add.path)
    assert rows_of(table.to_arrow(), "b") == wanted
    assert rows_of(table.to_spark(spark).toArrow(), "b") == wanted


def _rename_columns(file: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.ParquetFile(file).read()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    pq.write_table(rows.rename_columns([f"other{place}" for place in range(rows.num_columns)]), file)
