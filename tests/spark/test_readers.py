"""Delta Spark reads every mirrored version of every table; the rows are the ledger's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from readers.agreement import Lakes, agree, find_every_value, versions_to_read
from readers.engines import DeltaSpark
from readers.tables import CASES

pytestmark = pytest.mark.spark


@pytest.fixture(scope="session")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    return Lakes(tmp_path_factory)


@pytest.mark.parametrize("case", CASES)
def test_reads_every_version_as_the_ledger_has_it(case: str, lakes: Lakes, spark: SparkSession) -> None:
    assert agree(DeltaSpark(spark), lakes(case)) == versions_to_read(case)


def test_finds_every_value_by_the_statistics(lakes: Lakes, spark: SparkSession) -> None:
    commits_only, _ = lakes("all_primitives")
    assert find_every_value(DeltaSpark(spark), commits_only) == 93


def test_no_version_is_left_out() -> None:
    """Counted by hand, as for the other readers: Delta Spark has no limits."""
    assert not DeltaSpark.limits
    assert sum(versions_to_read(case) for case in CASES) == 137
