"""A SparkSession for our own jobs: quiet, with Java looked for first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltasql.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17


def require_java() -> None:
    """Say in words that Java is missing or too old, before Spark says it in a stack of frames."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = (
        f"install Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jre-headless; macOS: brew install "
        "openjdk@17) and set JAVA_HOME if it is not on the PATH"
    )
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and there is no java in it" if home else "no java is on the PATH"
        raise ConfigError(f"Spark needs Java, and {where}", hint=hint, field="JAVA_HOME")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 (the user's own java)
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] if found else "of an unknown version"
        raise ConfigError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is {version}", hint=hint, field="java")


def require_pyspark() -> None:
    try:
        import pyspark  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise ConfigError(
            "this needs PySpark, which is not installed",
            hint="run: pip install 'deltasql[spark]', or use --in-process where the verb has it",
            field="pyspark",
        ) from error


@contextmanager
def spark_session(
    master: str,
    name: str,
    *,
    log: Path | None = None,
    configure: Callable[[Any], Any] | None = None,
) -> Generator[SparkSession]:
    """A session that ends with the block. With `log`, what the JVM says goes into that file."""
    require_pyspark()
    require_java()
    from pyspark.sql import SparkSession

    # Executors must run the interpreter that has deltasql.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = (
        builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
    )
    with _errors_into(log):
        spark: SparkSession = (configure(builder) if configure else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_into(log: Path | None) -> Generator[None]:
    """The JVM keeps the error stream it is born with, so giving it a file for that moment is enough."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
