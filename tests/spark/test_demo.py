"""`deltasql demo` as a newcomer runs it: in a folder of its own, and a second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def demo(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deltasql.cli.main", "demo", "--rows", "400", *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_it_works_and_works_again(tmp_path: Path) -> None:
    folder = tmp_path / "a folder #1, größer"
    folder.mkdir()
    first = demo(folder)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "shop.customers: checkpoint at version 2" in first.stdout
    assert "shop.orders: checkpoint at version 7" in first.stdout
    assert "identical" in first.stdout
    assert "NOT" not in first.stdout
    assert "table history shop.orders" in first.stdout

    second = demo(folder, "--json")
    assert second.returncode == 0, second.stdout + second.stderr
    found = json.loads(second.stdout)
    assert (found["ok"], found["rebuilt_identical"]) == (True, True)
    readers = ["delta-rs", "DuckDB", "Polars", "Delta Spark"]
    for table, version in zip(found["tables"], (2, 7), strict=True):
        assert table["version"] == version
        assert [each["reader"] for each in table["readers"]] == readers
        assert all(each["agree"] and each["rows"] == table["rows"] > 0 for each in table["readers"])


def test_a_missing_java_is_told_in_words(tmp_path: Path) -> None:
    answer = demo(tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert answer.returncode == 2
    assert "Spark needs Java" in answer.stderr
    assert "openjdk-17" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_old_java_is_told_in_words(tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    answer = demo(tmp_path, JAVA_HOME=str(tmp_path / "java"))
    assert answer.returncode == 2
    assert "is 11" in answer.stderr


def test_a_folder_that_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "deltasql-demo").mkdir()
    (tmp_path / "deltasql-demo" / "precious").write_text("mine")
    answer = demo(tmp_path)
    assert answer.returncode == 2
    assert "--dir" in answer.stderr
    assert (tmp_path / "deltasql-demo" / "precious").read_text() == "mine"
