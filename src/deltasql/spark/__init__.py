"""Spark: DataFrames in and out, and the mirror as a Spark job.

`deltasql.spark.register(spark)` makes the format `deltasql` known to a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("deltasql")` known, with filters pushed to the ledger's planning.

    Spark refuses every read of a source that can push filters unless this setting is on, so both go together.
    """
    from deltasql.spark.source import PushingDataSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushingDataSource)


__all__ = ["register"]
