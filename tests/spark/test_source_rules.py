"""Writes through `format("deltasql")` to a table with a constraint: rows are checked where they are written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltasql.ops.properties import draft_add_constraint
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark


def test_a_dataframe_with_a_bad_row_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = SparkLake(spark, tmp_path)
    table = lake.create("t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    table._services.commit([draft_add_constraint(table._entry, table.snapshot(), "positive", "id > 0")])
    with pytest.raises(Exception, match=r"1 of .* rows break the constraint 'positive'"):
        lake.put(table, pa.table({"id": [1, 2, -3], "name": ["a", "b", "c"]}), parts=2)
    assert table.version == 1
    lake.put(table, pa.table({"id": [1, 2], "name": ["a", "b"]}), parts=2)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
