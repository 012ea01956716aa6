"""Rows of a table that tracks them: what deltasql appends gets ids that Delta Spark believes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import deltasql
from deltasql.errors import UnsupportedError
from deltasql.protocol.actions import DomainMetadata

pytestmark = pytest.mark.spark


def test_appends_go_on_where_the_ids_ended(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "warehouse" / "t"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id BIGINT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    spark.range(0, 5, 1, 1).write.format("delta").mode("append").save(str(place))
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        table = lake.adopt(str(place), name="t")
        stale = table.snapshot()
        table.append(pa.table({"id": [5, 6, 7]}))
        # Worked out on a version that is not the newest any more: rebased, with ids of its own.
        (first,) = [add for add in table.snapshot().adds() if add.default_row_commit_version == stale.version + 1]
        again = deltasql.protocol.actions.AddFile(
            path=f"copy-of-{first.path}",
            partition_values={},
            size=first.size,
            modification_time=first.modification_time,
            data_change=True,
            stats=first.stats,
            base_row_id=first.base_row_id,
            default_row_commit_version=first.default_row_commit_version,
        )
        (place / again.path).write_bytes((place / first.path).read_bytes())
        committed = table.commit([again], read_version=stale.version)
        with pytest.raises(UnsupportedError, match="rowTracking"):
            table.delete("id = 5")
        domains = table._services.reader.domains(table._entry, committed.version)
        assert domains == [
            DomainMetadata(
                domain="delta.rowTracking",
                configuration='{"rowIdHighWaterMark":10,"domainName":"delta.rowTracking"}',
                removed=False,
            )
        ]
        assert lake.mirror().ok
    rows = (
        spark.read.format("delta")
        .load(str(place))
        .selectExpr("id", "_metadata.row_id AS row_id", "_metadata.row_commit_version AS version")
        .collect()
    )
    found = sorted((row.row_id, row.id, row.version - stale.version) for row in rows)
    assert [row_id for row_id, _, _ in found] == list(range(11))
    assert [(value, version) for _, value, version in found[5:]] == [(5, 1), (6, 1), (7, 1), (5, 2), (6, 2), (7, 2)]
    # Delta Spark goes on from our mark.
    spark.range(20, 22, 1, 1).write.format("delta").mode("append").save(str(place))
    latest = spark.read.format("delta").load(str(place)).where("id >= 20").selectExpr("_metadata.row_id").collect()
    assert sorted(row[0] for row in latest) == [11, 12]
