"""What it means that a reader agrees with the ledger: every version of every table, the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pytest

import deltasql
from deltasql.protocol.paths import LOG_DIR
from readers.engines import Reader
from readers.normal import difference, normalise
from readers.tables import CASES


class DisagreementError(Exception):
    """A reader gave other rows than the ledger, or none."""


class Log(NamedTuple):
    """A log that readers are sent to, and the rows that the ledger has for each version to be read from it."""

    location: str
    expected: Mapping[int, pa.Table]


class Lakes:
    """The cases, each built when it is first asked for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._made: dict[str, list[Log]] = {}

    def __call__(self, case: str) -> list[Log]:
        if case not in self._made:
            self._made[case] = _make(case, self._folders.mktemp(case))
        return self._made[case]


def _make(name: str, folder: Path) -> list[Log]:
    logs: list[Log] = []
    with deltasql.connect(f"sqlite:///{folder}/ledger.db", root=str(folder / "lake")) as lake:
        case = CASES[name]
        case.build(lake)
        report = lake.mirror()
        assert report.ok, report
        assert {table.name: table.version for table in lake.tables()} == {
            table: versions[-1] for table, versions in case.versions.items()
        }
        for table in lake.tables():
            rows = {version: normalise(table.to_arrow(version=version)) for version in case.versions[table.name]}
            logs += [Log(table.location, rows), _only_checkpoint(table, rows)]
    return logs


def _only_checkpoint(table: deltasql.Table, rows: Mapping[int, pa.Table]) -> Log:
    """A copy of the table with a checkpoint of its head and no older commit: a reader has nothing to fall back on."""
    source = local(table.location)
    copy = source.with_name(f"{source.name}-checkpoint")
    shutil.copytree(source, copy)
    version = table.checkpoint()
    # The table itself stays without it, so that its commits are read.
    name, pointer = f"{version:020}.checkpoint.parquet", "_last_checkpoint"
    (source / LOG_DIR / name).rename(copy / LOG_DIR / name)
    before = (copy / LOG_DIR / pointer).read_bytes() if (copy / LOG_DIR / pointer).exists() else None
    (source / LOG_DIR / pointer).rename(copy / LOG_DIR / pointer)
    if before is not None:
        (source / LOG_DIR / pointer).write_bytes(before)
    for file in (copy / LOG_DIR).glob("*.json"):
        if int(file.stem) < version:
            file.unlink()
    return Log(f"{table.location}-checkpoint", {version: rows[version]})


def local(location: str) -> Path:
    return Path(unquote(location.removeprefix("file://")))


def versions_to_read(case: str) -> int:
    """How often a reader reads in a case: each version, the head by itself, and the head from a checkpoint alone."""
    return sum(len(versions) + 3 for versions in CASES[case].versions.values())


def agree(reader: Reader, logs: list[Log]) -> int:
    """Read everything and compare. Returns how often it was read; `DisagreementError` names all that differs."""
    count = 0
    problems: list[str] = []
    for log in logs:
        head = max(log.expected)
        for version in (*log.expected, None):
            count += 1
            read = partial(reader.read, log.location, version)
            if problem := _problem(read, log.expected[head if version is None else version]):
                at = "head" if version is None else f"version {version}"
                problems.append(f"{reader.name}, {log.location}, {at}: {problem}")
    if problems:
        raise DisagreementError("\n".join(problems))
    return count


def find_every_value(reader: Reader, log: Log) -> int:
    """Look for each value of each column, at the head. Returns how many there were; `DisagreementError` as above."""
    rows = log.expected[max(log.expected)]
    count = 0
    problems: list[str] = []
    for field in rows.schema:
        present = rows[field.name].to_pylist()
        # NaN is no value to look for: engines differ on what it equals.
        for value in dict.fromkeys(value for value in present if value is not None and value == value):
            count += 1
            expected = rows.filter(pa.array([each == value for each in present], pa.bool_()))
            find = partial(reader.find, log.location, field.name, field.type, value)
            if problem := _problem(find, expected):
                problems.append(f"{reader.name}, {log.location}, {field.name} = {value!r}: {problem}")
    if problems:
        raise DisagreementError("\n".join(problems))
    return count


def _problem(read: Callable[[], pa.Table], expected: pa.Table) -> str | None:
    try:
        found = read()
    except Exception as error:  # noqa: BLE001 (an engine may raise anything; all of it is a disagreement)
        return f"{type(error).__name__}: {error}"
    return difference(normalise(found), expected)
