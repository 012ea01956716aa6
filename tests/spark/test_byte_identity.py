"""Tables that Delta Spark wrote: every commit is encoded again to the same bytes, adopted, rebuilt and carried on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import deltasql
from deltasql.protocol.jsonlog import decode_commit, encode_commit
from deltasql.protocol.paths import LOG_DIR, parse_log_name
from readers.agreement import Log, agree
from readers.engines import DeltaRs, DeltaRsDataset, DeltaSpark, DuckDb, Polars, Reader
from readers.normal import KEY, normalise
from readers.written_by_spark import TABLES

pytestmark = pytest.mark.spark

PLAIN = [name for name, table in TABLES.items() if table.plain]

Place = Callable[[str], Path]


@pytest.fixture(scope="session")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The folder of a table, which is written when it is first asked for. Nobody writes to it afterwards."""

    def place(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name) / "table"
        TABLES[name].write(spark, str(folder))
        return folder

    return cache(place)


class Carried(NamedTuple):
    """A table that was adopted where it lay, and then written to."""

    before: Mapping[int, bytes]
    after: Mapping[int, bytes]
    log: Log


@pytest.fixture(scope="session")
def carried_on(written: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Carried]:
    return cache(lambda name: carry_on(written(name), tmp_path_factory.mktemp(name)))


def carry_on(source: Path, folder: Path) -> Carried:
    place = shutil.copytree(source, folder / "copy")
    before = commits(place)
    with connect(folder) as lake:
        table = lake.adopt(str(place), "adopted")
        table.append(more_rows(table))
        table.delete(f"k = {table.to_arrow()[KEY][0]}")  # in a file that Spark wrote, if there is one
        assert lake.mirror().ok
        rows = {version: normalise(table.to_arrow(version)) for version in range(len(before) + 2)}
    return Carried(before, commits(place), Log(table.location, rows))


@pytest.mark.parametrize("name", TABLES)
def test_every_commit_is_encoded_as_spark_wrote_it(name: str, written: Place) -> None:
    found = commits(written(name))
    assert list(found) == list(range(TABLES[name].versions))
    for data in found.values():
        assert encode_commit(decode_commit(data)) == data


@pytest.mark.parametrize("name", TABLES)
def test_adopted_and_rebuilt_elsewhere_byte_for_byte(name: str, written: Place, tmp_path: Path) -> None:
    with connect(tmp_path) as lake:
        lake.adopt(str(written(name)), "adopted")
        report = lake.rebuild("adopted", to=str(tmp_path / "elsewhere"))
    assert report.written == TABLES[name].versions
    assert commits(tmp_path / "elsewhere") == commits(written(name))


@pytest.mark.parametrize("name", PLAIN)
def test_adopted_in_place_and_carried_on(name: str, carried_on: Callable[[str], Carried]) -> None:
    """What Spark wrote stays as it was; what deltasql committed follows it."""
    before, after, log = carried_on(name)
    assert {version: after[version] for version in before} == before
    assert list(after) == list(log.expected)


@pytest.mark.parametrize("reader", [DeltaSpark, DeltaRs, DeltaRsDataset, DuckDb, Polars], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", PLAIN)
def test_readers_agree_on_every_version(
    name: str, reader: type[Reader], carried_on: Callable[[str], Carried], spark: SparkSession
) -> None:
    log = carried_on(name).log
    assert agree(DeltaSpark(spark) if reader is DeltaSpark else reader(), [log]) == TABLES[name].versions + 3


@pytest.mark.parametrize("first", [10, 11], ids=["up to the checkpoint", "the checkpoint's own too"])
def test_a_table_without_its_early_commits(first: int, written: Place, spark: SparkSession, tmp_path: Path) -> None:
    """As Delta's own clean-up leaves a table, and without the one commit more that readers can do without."""
    place = shutil.copytree(written("checkpoints"), tmp_path / "copy")
    for version in range(first):
        for file in (place / LOG_DIR).glob(f"*{version:020}.*"):
            if "checkpoint" not in file.name:
                file.unlink()
    left = commits(place)
    assert list(left) == list(range(first, 13))
    with connect(tmp_path) as lake:
        table = lake.adopt(str(place), "adopted")
        report = lake.rebuild("adopted", to=str(tmp_path / "elsewhere"))
        # Spark reads a version only where it finds that version's commit.
        rows = {version: normalise(table.to_arrow(version=version)) for version in left}
    assert (report.first_version, report.last_version, report.checkpoint_version) == (first, 12, 12)
    assert commits(tmp_path / "elsewhere") == left
    for file in place.glob("*.parquet"):
        shutil.copy(file, tmp_path / "elsewhere")
    logs = [Log(f"file://{place}", rows), Log(f"file://{tmp_path / 'elsewhere'}", {12: rows[12]})]
    for reader in (DeltaSpark(spark), DeltaRs(), DeltaRsDataset(), DuckDb(), Polars()):
        assert agree(reader, logs) == len(rows) + 3


def test_the_tables_bring_up_what_spark_can_write(written: Place) -> None:
    """Byte identity is worth what it was tried on."""
    seen: dict[str, set[str]] = {}
    for name in TABLES:
        for data in commits(written(name)).values():
            for line in data.splitlines():
                for action, body in orjson.loads(line).items():
                    seen.setdefault(action, set()).update(body)
    assert set(seen) == {"commitInfo", "metaData", "protocol", "add", "remove", "cdc", "txn", "domainMetadata"}
    assert seen["add"] >= {
        *("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"),
        *("baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
    }
    assert seen["remove"] >= {
        *("path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size", "tags"),
        *("deletionVector", "baseRowId", "defaultRowCommitVersion", "stats"),
    }
    assert seen["metaData"] >= {"description", "configuration", "createdTime"}
    assert seen["commitInfo"] >= {"inCommitTimestamp", "userMetadata", "tags", "operationMetrics", "txnId"}


def connect(folder: Path) -> deltasql.Lake:
    return deltasql.connect(f"sqlite:///{folder}/ledger.db")


def commits(table: Path) -> Mapping[int, bytes]:
    """The commit files of a log by version, in order."""
    files = {file: parse_log_name(file.name) for file in (table / LOG_DIR).iterdir()}
    found = {name.version: file.read_bytes() for file, name in files.items() if name and name.kind == "commit"}
    return dict(sorted(found.items()))


def more_rows(table: deltasql.Table) -> pa.Table:
    """The newest rows there are, under new keys."""
    schema = table.snapshot().schema
    versions = (table.to_arrow(version=version) for version in range(table.version, -1, -1))
    rows = next(rows for rows in versions if rows.num_rows and rows.schema == schema)
    place = rows.schema.get_field_index(KEY)
    return rows.set_column(place, rows.schema.field(place), pc.add(rows[KEY], 1_000_000))
