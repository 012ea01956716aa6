"""One SparkSession for all Spark tests of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

# Errors only, from the first line on.
_LOG4J = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert version("delta-spark") == "4.4.0"
    folder = tmp_path_factory.mktemp("spark")
    # Python workers must be this interpreter; one found on the PATH may lack what they import.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = configure_spark_with_delta_pip(_builder(folder)).getOrCreate()
    yield session
    session.stop()


def _builder(folder: Path) -> SparkSession.Builder:
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J)
    options = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1500m",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j} -Dderby.system.home={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        # A handful of rows do not want 200 tasks, nor a log of a dozen files 50.
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    # Two tasks at a time, and a second try for one that fails, as on a cluster.
    builder = SparkSession.builder.master("local[2, 2]").appName("deltasql tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder
