"""What runs on executors is light: every Python worker of every task pays for what is imported there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

# Databases' definitions and migrations, the terminal, and everything of Spark that makes or plans a session.
HEAVY = ("alembic", "delta", "duckdb", "mako", "pandas", "polars", "pyspark", "rich", "sqlalchemy", "typer")
# Our own modules that belong to the driver's side.
DRIVER_SIDE = (
    "deltasql.cli",
    "deltasql.client",
    "deltasql.ledger.migrate",
    "deltasql.ledger.tables",
    "deltasql.ledger.writer",
    "deltasql.mirror.engine",
    "deltasql.spark.pipeline",
    "deltasql.spark.session",
)


def modules_after(statement: str) -> set[str]:
    """What a fresh process has loaded after a statement."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DELTASQL_", "PYTEST_"))}
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_tasks_load_no_session_no_terminal_and_no_definitions() -> None:
    loaded = modules_after("import deltasql.spark.tasks")
    assert {"deltasql.spark.tasks", "deltasql.ops.files", "deltasql.mirror.publish", "pyarrow"} <= loaded
    assert {name for name in loaded if name.split(".")[0] in HEAVY} == set()
    assert {name for name in loaded if name.startswith(DRIVER_SIDE)} == set()


def test_the_data_source_loads_of_spark_what_it_is_made_of() -> None:
    """It crosses to executors inside its readers and writers, so its module is imported there."""
    loaded = modules_after("import deltasql.spark.source")
    assert "pyspark.sql.datasource" in loaded
    assert {name for name in loaded if name.split(".")[0] in set(HEAVY) - {"pyspark"}} == set()
    assert {
        name for name in loaded if name.startswith(("deltasql.cli", "deltasql.client", "deltasql.spark.p"))
    } == set()


def test_the_words_above_name_modules_that_exist() -> None:
    """A module that was renamed would be found loaded by nobody."""
    assert set(DRIVER_SIDE) <= modules_after("\n".join(f"import {name}" for name in DRIVER_SIDE))
