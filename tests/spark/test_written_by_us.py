"""The reader suite over tables whose rows came from Spark: what a DataFrame held is what every reader gives back.

Every case of `readers/tables.py` is built as it is, but for its appends and overwrites, which are DataFrames here. At
the end each table is overwritten once more, whole, and the mirror publishes all of them in one Spark job. Nothing is
left out: Spark has all of Delta's types, and makes every value of the cases. A DataFrame cannot take part in a
transaction over two tables or replace a part of one, so those commits stay the client's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from deltasql import Lake, Table
from readers.agreement import DisagreementError, Log, agree
from readers.engines import DeltaRs, DeltaRsDataset, DeltaSpark, DuckDb, Polars, Reader
from readers.normal import difference, normalise
from readers.tables import CASES
from spark_lakes import SparkLake

pytestmark = pytest.mark.spark

READERS: list[type[Reader]] = [DeltaRs, DeltaRsDataset, DuckDb, Polars, DeltaSpark]


class SparkTable:
    """A table of the client whose rows come from Spark. After each write it holds what the DataFrame held."""

    def __init__(self, here: SparkLake, table: Table) -> None:
        self._here = here
        self._table = table
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def append(self, data: pa.Table) -> None:
        self._put(data, "append", [self._table.to_arrow()])

    def overwrite(self, data: pa.Table, where: str | None = None) -> None:
        if where is None:
            self._put(data, "overwrite", [])
        else:
            self._table.overwrite(data, where)

    def overwrite_with_itself(self) -> None:
        self.overwrite(self._table.to_arrow())

    def _put(self, data: pa.Table, mode: str, before: Sequence[pa.Table]) -> None:
        version = self._table.version
        self._here.put(self._table, data, mode)
        assert self._table.version == version + 1
        expected = pa.concat_tables([*before, self._with_nulls(data)])
        assert difference(normalise(self._table.to_arrow()), normalise(expected)) is None
        self.written += 1

    def _with_nulls(self, data: pa.Table) -> pa.Table:
        """The rows as Delta keeps them: as a partition value the empty text is null."""
        data = data.cast(self._table.snapshot().schema)
        for name in self._table.snapshot().metadata.partition_columns:
            column = data.column(name)
            if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                place, length = data.schema.get_field_index(name), pc.binary_length(column)
                emptied = pc.if_else(pc.equal(length, 0), pa.scalar(None, column.type), column)
                data = data.set_column(place, data.schema.field(place), emptied)
        return data


class SparkWriting:
    """A lake as the cases use it, whose tables are `SparkTable`s."""

    def __init__(self, here: SparkLake) -> None:
        self._here = here
        self.tables: dict[str, SparkTable] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here.lake, name)

    def create_table(self, name: str, *values: Any, **more: Any) -> SparkTable:
        self.tables[name] = SparkTable(self._here, self._here.lake.create_table(name, *values, **more))
        return self.tables[name]

    def mirror(self) -> None:
        assert self._here.lake.mirror(spark=self._here.spark, tables=list(self.tables)).ok


@pytest.fixture(scope="module")
def logs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, list[Log]]]:
    """All cases in one lake, published by one Spark job."""
    here = SparkLake(spark, tmp_path_factory.mktemp("written"))
    made: dict[str, list[Log]] = {}
    with here.lake as lake:
        building = {name: SparkWriting(here) for name in CASES}
        for name, case in CASES.items():
            case.build(cast("Lake", building[name]))
            for table in building[name].tables.values():
                table.overwrite_with_itself()
        report = lake.mirror(spark=spark)
        assert report.ok, report
        for name, case in CASES.items():
            made[name] = []
            for table, versions in case.versions.items():
                written = lake.table(table)
                assert written.version == versions[-1] + 1
                rows = {version: normalise(written.to_arrow(version)) for version in (*versions, versions[-1] + 1)}
                made[name].append(Log(written.location, rows))
        # Counted by hand: appends and overwrites of the cases, and one overwrite of each table.
        assert sum(table.written for each in building.values() for table in each.tables.values()) == 55 + 19
        yield made


def reads(case: str) -> int:
    """How often a reader reads in a case: each version, the last overwrite, and the head by itself."""
    return sum(len(versions) + 2 for versions in CASES[case].versions.values())


def pairs() -> Iterator[object]:
    for kind in READERS:
        for case in CASES:
            limit = kind.limits.get(case)
            marks = () if limit is None else pytest.mark.xfail(reason=limit, raises=DisagreementError, strict=True)
            yield pytest.param(kind, case, marks=marks, id=f"{kind.name}-{case}")


@pytest.mark.parametrize(("kind", "case"), list(pairs()))
def test_reads_what_the_data_frames_held(
    kind: type[Reader], case: str, logs: Mapping[str, list[Log]], spark: SparkSession
) -> None:
    reader = DeltaSpark(spark) if kind is DeltaSpark else kind()
    assert agree(reader, logs[case]) == reads(case)


def test_no_version_is_left_out() -> None:
    """Counted by hand: a case that comes to nothing, or is dropped, shows here."""
    counted = {kind.name: sum(reads(case) for case in CASES if case not in kind.limits) for kind in READERS}
    assert counted == {"delta-rs": 118, "delta-rs-dataset": 114, "duckdb": 118, "polars": 101, "spark": 118}
