"""Four readers that know nothing of the ledger, for the demo: each opens a table by its plain path."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from deltasql.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


class Reader(msgspec.Struct, frozen=True):
    name: str
    package: str
    read: Callable[[str, Any], pa.Table]


def _delta_rs(location: str, _: Any) -> pa.Table:
    deltalake: Any = importlib.import_module("deltalake")
    return deltalake.DeltaTable(location).to_pyarrow_table()


def _duckdb(location: str, _: Any) -> pa.Table:
    duckdb: Any = importlib.import_module("duckdb")
    package = Path(str(importlib.import_module("duckdb_extension_delta").__file__)).parent
    (extension,) = package.rglob(f"v{duckdb.__version__}/**/delta.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection.execute("SELECT * FROM delta_scan(?)", [location]).to_arrow_table()


def _polars(location: str, _: Any) -> pa.Table:
    polars: Any = importlib.import_module("polars")
    # Its own reader does not find files below a folder whose name a URL must escape.
    return polars.read_delta(location, use_pyarrow="%" in location).to_arrow()


def _delta_spark(location: str, spark: Any) -> pa.Table:
    return spark.read.format("delta").load(unquote(location)).toArrow()


READERS = (
    Reader("delta-rs", "deltalake", _delta_rs),
    Reader("DuckDB", "duckdb_extension_delta", _duckdb),
    Reader("Polars", "polars", _polars),
    Reader("Delta Spark", "delta", _delta_spark),
)


def require_readers() -> None:
    missing = [reader.name for reader in READERS if importlib.util.find_spec(reader.package) is None]
    if missing:
        raise ConfigError(
            f"the demo compares with {', '.join(missing)}, not installed here",
            hint="run: pip install 'deltasql[demo]'",
            field="demo",
        )


def with_delta(builder: Any) -> Any:
    """A session that can read Delta tables by itself; deltasql needs none of this."""
    return importlib.import_module("delta").configure_spark_with_delta_pip(
        builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.shuffle.partitions", "2")
    )
