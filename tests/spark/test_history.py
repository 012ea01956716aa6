"""A table whose properties and constraints deltasql changed, as Delta Spark sees it, and its history beside Delta's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import deltasql
from deltasql.ledger.contracts import CommitDraft
from deltasql.ops.history import describe_history
from deltasql.ops.properties import (
    draft_add_constraint,
    draft_drop_constraint,
    draft_set_properties,
    draft_unset_properties,
)

pytestmark = pytest.mark.spark


def test_delta_spark_keeps_what_was_set_and_tells_the_same_history(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "warehouse" / "t"
    # Begun by Delta Spark, so that both engines' commits are in one history.
    spark.sql(f"CREATE TABLE delta.`{place}` (id BIGINT, day STRING) USING delta PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('team' = 'bob')")
    with deltasql.connect(f"sqlite:///{tmp_path}/lake.db", root=str(tmp_path / "warehouse")) as lake:
        table = lake.adopt(str(place), name="t")
        entry = table._entry

        def commit(draft: CommitDraft | None) -> None:
            assert draft is not None
            lake._services.commit([draft])

        commit(draft_add_constraint(entry, table.snapshot(), "gone", "id < 100"))
        commit(draft_add_constraint(entry, table.snapshot(), "Positive", "id > 0"))
        commit(draft_drop_constraint(entry, table.snapshot(), "gone"))
        properties = {"delta.enableInCommitTimestamps": "true", "delta.appendOnly": "true", "mine": "1"}
        commit(draft_set_properties(entry, table.snapshot(), properties))
        commit(draft_unset_properties(entry, table.snapshot(), ["mine", "nope"], if_exists=True))
        assert lake.mirror().ok
        ours = describe_history(lake._services.reader, entry).drop_columns(["mirror"])
        state = table.snapshot()
    history = spark.sql(f"DESCRIBE HISTORY delta.`{place}`")
    assert history.columns == ours.column_names
    theirs = history.toArrow()
    assert described(ours) == described(theirs)
    assert ours.column("version").to_pylist() == list(range(7, -1, -1))

    shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES delta.`{place}`").collect()}
    assert shown.items() >= state.metadata.configuration.items()
    assert shown["delta.constraints.positive"] == "id > 0"
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{place}`").collect()[0]
    assert set(detail.tableFeatures) >= {"appendOnly", "checkConstraints", "inCommitTimestamp", "invariants"}
    for bad in ("-1", "NULL"):
        with pytest.raises(Exception, match="CHECK constraint positive"):
            spark.sql(f"INSERT INTO delta.`{place}` VALUES ({bad}, 'a')")
    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 1")


def described(history: pa.Table) -> list[dict[str, Any]]:
    """Rows to compare, their maps without an order."""
    maps = ("operationParameters", "operationMetrics")
    return [
        {**row, **{name: None if row[name] is None else dict(row[name]) for name in maps}}
        for row in history.to_pylist()
    ]
