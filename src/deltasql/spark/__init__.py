"""Spark: DataFrames in and out, and the mirror as a Spark job.

`deltasql.spark.register(spark)` makes the format `deltasql` known to a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("deltasql")` known to a session.

    Where Spark keeps the filters of one scan out of the others, they are pushed to the ledger's planning. Spark
    refuses every read of a source that can push filters unless a setting is on, so both go together.
    """
    from deltasql.spark.source import PUSHING_IS_SAFE, DeltaSqlDataSource, PushingDataSource

    # Spark looks for a source of that name in the active session, be it this one or not; this call makes it this one.
    cast("Any", spark).createDataFrame([], "nothing int")
    if PUSHING_IS_SAFE:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushingDataSource if PUSHING_IS_SAFE else DeltaSqlDataSource)


__all__ = ["register"]
