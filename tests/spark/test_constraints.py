"""Rows that deltasql completes and checks beside those that Delta Spark does, in a table with every kind of rule."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

import deltasql
from deltasql.errors import InvalidInputError, SchemaError
from deltasql.ops.constraints import Rules, rules_of
from deltasql.ops.files import write_files
from deltasql.ops.write import append_of

pytestmark = pytest.mark.spark

AT = "2026-01-31 23:59:59.999999"


def test_both_fill_in_and_refuse_the_same(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "warehouse" / "t"
    make_table(spark, place)
    spark.sql(f"INSERT INTO delta.`{place}` (id, at) VALUES (1, TIMESTAMP '{AT}'), (2, NULL)")
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        table = lake.adopt(str(place), name="t")
        snapshot = table.snapshot()
        rules = rules_of(snapshot.metadata, snapshot.protocol, table="t")
        rows = rules.fit(data(1, 2))
        adds = write_files(lake._services.store_at(table.location), snapshot.metadata, rows)
        lake._services.commit([append_of(table._entry, snapshot.version, adds, rows.num_rows)])
        assert lake.mirror().ok
    # Every row twice: as Delta Spark completed it, and as deltasql did.
    found = sorted(map(tuple, spark.read.format("delta").load(str(place)).collect()))
    assert len(found) == 4
    assert found[::2] == found[1::2]
    refuse(spark, place, rules)


def make_table(spark: SparkSession, place: Path) -> None:
    (
        DeltaTable.create(spark)
        .location(str(place))
        .addColumn("id", "BIGINT", nullable=False)
        .addColumn("at", "TIMESTAMP")
        .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        .addColumn("year", "INT", generatedAlwaysAs="YEAR(at)")
        .addColumn("hour", "INT", generatedAlwaysAs="HOUR(at)")
        .addColumn("code", "STRING", generatedAlwaysAs="CAST(id AS STRING)")
        .addColumn("note", "STRING")
        .addColumn("rate", "DECIMAL(5,2)")
        .property("delta.feature.allowColumnDefaults", "supported")
        .execute()
    )
    spark.sql(f"ALTER TABLE delta.`{place}` ALTER COLUMN note SET DEFAULT 'it''s'")
    spark.sql(f"ALTER TABLE delta.`{place}` ALTER COLUMN rate SET DEFAULT 1.5")
    spark.sql(f"ALTER TABLE delta.`{place}` ADD CONSTRAINT small CHECK (id < 10)")
    spark.sql(f"ALTER TABLE delta.`{place}` ADD CONSTRAINT noted CHECK (note <> 'bad')")


def refuse(spark: SparkSession, place: Path, rules: Rules) -> None:
    """Rows that neither engine takes: each breaks one rule, two of them with a null."""
    for columns, values, broken in [
        ({"id": [10]}, "10, NULL, 'x'", "small"),
        ({"note": ["bad"]}, "1, NULL, 'bad'", "noted"),
        ({"note": pa.array([None], pa.string())}, "1, NULL, NULL", "noted"),
        ({"id": pa.array([None], pa.int64())}, "NULL, NULL, 'x'", "id"),
    ]:
        given = {"id": [1], "at": pa.array([None], pa.timestamp("us", "UTC")), "note": ["x"], **columns}
        with pytest.raises((InvalidInputError, SchemaError), match=broken):
            rules.fit(pa.table(given))
        with pytest.raises(Exception, match=broken):
            spark.sql(f"INSERT INTO delta.`{place}` (id, at, note) VALUES ({values})")
    with pytest.raises(InvalidInputError, match="generated column 'year'"):
        rules.fit(data(1).append_column("year", pa.array([1999], pa.int32())))
    with pytest.raises(Exception, match="Generated Column"):
        spark.sql(f"INSERT INTO delta.`{place}` (id, at, year) VALUES (1, TIMESTAMP '{AT}', 1999)")


def data(*ids: int) -> pa.Table:
    """Rows without the columns that are filled in; of two, the second has no instant."""
    instants = pa.array([AT, None][: len(ids)], pa.string()).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": list(ids), "at": instants})
