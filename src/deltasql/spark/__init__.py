"""Spark: DataFrames in and out, and the mirror as a Spark job.

`deltasql.spark.register(spark)` makes the format `deltasql` known to a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, *, push_filters: bool | None = None) -> None:
    """Make `format("deltasql")` known to a session.

    With `push_filters` Spark hands filters to the ledger's planning. Left out, it is on where Spark keeps the filters
    of one scan out of the others. Up to Spark 4.2 it does not: all queries on one loaded DataFrame share what the last
    of them pushed. Who asks for it there must load a DataFrame for each query.
    """
    from deltasql.spark.source import PUSHING_IS_SAFE, DeltaSqlDataSource, PushingDataSource

    # Spark looks for a source of that name in the active session, be it this one or not; this call makes it this one.
    cast("Any", spark).createDataFrame([], "nothing int")
    push = PUSHING_IS_SAFE if push_filters is None else push_filters
    if push:
        # Spark refuses every read of a source that can push filters unless this is on, so both go together.
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PushingDataSource if push else DeltaSqlDataSource)


__all__ = ["register"]
