"""The foreign readers: one small class an engine. Each reads a table by its place, at a version or at its head.

All of them can read any version, so no table has to be read while it grows. What an engine cannot read is said
beside it, by the name of the case in `tables.py`; the tests see to it that the limit is still there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import unquote

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader(Protocol):
    """Reads the rows of a table, in any order and with the engine's own types."""

    name: ClassVar[str]
    limits: ClassVar[Mapping[str, str]]

    def read(self, location: str, version: int | None = None) -> pa.Table: ...

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        """The rows whose column has this value; the engine may skip files by their statistics."""
        ...


class DeltaRs:
    """delta-rs with its own engine, DataFusion."""

    name: ClassVar[str] = "delta-rs"
    limits: ClassVar[Mapping[str, str]] = {}

    def read(self, location: str, version: int | None = None) -> pa.Table:
        return self._query(location, version, "select * from t")

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        quoted = _text(value).replace("'", "''")
        literal = f"X'{value.hex()}'" if isinstance(value, bytes) else f"arrow_cast('{quoted}', '{_rust_name(kind)}')"
        return self._query(location, None, f'select * from t where "{column}" = {literal}')

    def _query(self, location: str, version: int | None, query: str) -> pa.Table:
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(location, version=version)
        return pa.table(QueryBuilder().register("t", table).execute(query).read_all())


class DeltaRsDataset:
    """delta-rs as a pyarrow dataset: the log by delta-rs, the rows by pyarrow."""

    name: ClassVar[str] = "delta-rs-dataset"
    limits: ClassVar[Mapping[str, str]] = {
        "finding values": "delta-rs 1.6 finds nothing in a file that has no bounds for the column",
        "partitioned_by_negative_fractions": "delta-rs 1.6 spells -1.25 as '-1.-25' in the dataset it makes",
    }

    def read(self, location: str, version: int | None = None) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(location, version=version).to_pyarrow_table()

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(location).to_pyarrow_table(filters=[(column, "=", value)])


class DuckDb:
    """DuckDB with its delta extension, loaded from the Python package: nothing is downloaded or installed."""

    name: ClassVar[str] = "duckdb"
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

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        query = f'select * from delta_scan(?) where "{column}" = ?'
        return self._connection.execute(query, [location, value]).to_arrow_table()


class Polars:
    """Polars: the log by delta-rs, the rows by Polars."""

    name: ClassVar[str] = "polars"
    limits: ClassVar[Mapping[str, str]] = {
        "partitioned_by_binary": "Polars 2.1 has no binary partition columns",
        "partitioned_by_the_null_directory": "Polars 2.1 takes the name of Hive's directory for null as null",
        "partition_column_with_escapes": "Polars 2.1 does not unescape the name of a partition column in a path",
        "odd_place": "Polars 2.1 does not find files below a folder whose name a URL must escape",
    }

    def read(self, location: str, version: int | None = None) -> pa.Table:
        import polars as pl

        return pl.scan_delta(location, version=version).collect().to_arrow()

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        import polars as pl

        return pl.scan_delta(location).filter(pl.col(column) == value).collect().to_arrow()


class DeltaSpark:
    """Delta Spark. Hadoop does not unescape a URL, so it is given the bare path."""

    name: ClassVar[str] = "spark"
    limits: ClassVar[Mapping[str, str]] = {}

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, location: str, version: int | None = None) -> pa.Table:
        return _to_arrow(self._load(location, version))

    def find(self, location: str, column: str, kind: pa.DataType, value: Any) -> pa.Table:
        from pyspark.sql import functions

        rows = self._load(location, None)
        literal = functions.lit(value if isinstance(value, bytes) else _text(value))
        return _to_arrow(rows.where(functions.col(column) == literal.cast(rows.schema[column].dataType)))

    def _load(self, location: str, version: int | None) -> DataFrame:
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(unquote(location))


def _to_arrow(rows: DataFrame) -> pa.Table:
    from pyspark.sql.types import StructType

    # PySpark's `toArrow` stumbles over a required field of a struct that is null.
    loose = json.loads(rows.schema.json().replace('"nullable":false', '"nullable":true'))
    return rows.to(StructType.fromJson(loose)).toArrow()


def _text(value: object) -> str:
    """A value as every SQL casts it from text."""
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _rust_name(kind: pa.DataType) -> str:
    """The name of a type in Arrow's Rust library."""
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"Timestamp(Microsecond, {'None' if kind.tz is None else f'Some({chr(34)}{kind.tz}{chr(34)})'})"
    names = {"bool": "Boolean", "float": "Float32", "double": "Float64", "string": "Utf8", "date32[day]": "Date32"}
    return names.get(str(kind), str(kind).capitalize())
