"""A lake that Spark reads and writes, for the tests of `format("deltasql")`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import deltasql
import deltasql.spark
from deltasql import Lake, MirrorSettings, Table
from deltasql.events import Sink, ignore

SETTINGS = MirrorSettings()


class SparkLake:
    """A ledger and a folder, and a session that knows the format. Everything goes through what users call."""

    def __init__(
        self, spark: SparkSession, folder: Path, mirror: MirrorSettings = SETTINGS, sink: Sink = ignore
    ) -> None:
        self.spark = spark
        self.folder = folder
        self.ledger = f"sqlite:///{folder}/ledger.db"
        self.lake: Lake = deltasql.connect(self.ledger, root=str(folder / "lake"), mirror=mirror, sink=sink)
        deltasql.spark.register(spark)

    def create(self, name: str, schema: pa.Schema, *partition_by: str, **properties: str) -> Table:
        return self.lake.create_table(name, schema, partition_by=partition_by, properties=properties)

    def frame(self, table: Table, rows: pa.Table, parts: int | None = None) -> DataFrame:
        """The rows as a DataFrame with the table's types, in as many partitions as asked for."""
        schema = StructType.fromJson(json.loads(table.snapshot().metadata.schema_string))
        create: Any = self.spark.createDataFrame
        # PySpark does not take slices of nested arrays; chunks are put together, and so copied, where there are two.
        made = create(pa.concat_tables([rows, rows.slice(0, 0)]).combine_chunks(), schema=schema)
        return made if parts is None else made.repartition(parts)

    def write(self, rows: DataFrame, table: str, mode: str = "append", **options: str) -> None:
        writer = rows.write.format("deltasql").option("ledger", self.ledger).option("table", table)
        writer.options(**options).mode(mode).save()

    def put(self, table: Table, rows: pa.Table, mode: str = "append", parts: int | None = None, **options: str) -> None:
        self.write(self.frame(table, rows, parts), table.name, mode, **options)

    def read(self, table: str, format: str = "deltasql", **options: str) -> DataFrame:
        reader = self.spark.read.format(format).option("ledger", self.ledger).option("table", table)
        return reader.options(**options).load()
