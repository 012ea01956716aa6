"""The foreign readers: one small class an engine. Each reads a table by its place, at a version or at its head.

All of them can read any version, so no table has to be read while it grows. What an engine cannot read is said
beside it, by the name of the case in `tables.py`; the tests see to it that the limit is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import unquote

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reader(Protocol):
    """Reads the rows of a table, in any order and with the engine's own types."""

    name: ClassVar[str]
    limits: ClassVar[Mapping[str, str]]

    def read(self, location: str, version: int | None = None) -> pa.Table: ...


class DeltaRs:
    """delta-rs with its own engine, DataFusion."""

    name = "delta-rs"
    limits: ClassVar[Mapping[str, str]] = {}

    def read(self, location: str, version: int | None = None) -> pa.Table:
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(location, version=version)
        return pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())


class DeltaRsDataset:
    """delta-rs as a pyarrow dataset: the log by delta-rs, the rows by pyarrow."""

    name = "delta-rs-dataset"
    limits: ClassVar[Mapping[str, str]] = {
        "partitioned_by_negative_fractions": "delta-rs 1.6 spells -1.25 as '-1.-25' in the dataset it makes",
    }

    def read(self, location: str, version: int | None = None) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(location, version=version).to_pyarrow_table()


class DuckDb:
    """DuckDB with its delta extension, loaded from the Python package: nothing is downloaded or installed."""

    name = "duckdb"
    limits: ClassVar[Mapping[str, str]] = {}

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        place = files("duckdb_extension_delta") / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
        self._connection.execute(f"load '{place}'")
        self._connection.execute("set timezone = 'UTC'")

    def read(self, location: str, version: int | None = None) -> pa.Table:
        if version is None:
            return self._connection.execute("select * from delta_scan(?)", [location]).to_arrow_table()
        query = "select * from delta_scan(?, version => ?)"
        return self._connection.execute(query, [location, version]).to_arrow_table()


class Polars:
    """Polars: the log by delta-rs, the rows by Polars."""

    name = "polars"
    limits: ClassVar[Mapping[str, str]] = {
        "partitioned_by_binary": "Polars 2.1 has no binary partition columns",
        "partitioned_by_the_null_directory": "Polars 2.1 takes the name of Hive's directory for null as null",
        "partition_column_with_escapes": "Polars 2.1 does not unescape the name of a partition column in a path",
        "odd_place": "Polars 2.1 does not find files below a folder whose name a URL must escape",
    }

    def read(self, location: str, version: int | None = None) -> pa.Table:
        import polars as pl

        return pl.scan_delta(location, version=version).collect().to_arrow()


class DeltaSpark:
    """Delta Spark. Hadoop does not unescape a URL, so it is given the bare path."""

    name = "spark"
    limits: ClassVar[Mapping[str, str]] = {}

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, location: str, version: int | None = None) -> pa.Table:
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(unquote(location)).toArrow()
