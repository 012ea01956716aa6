"""delta-rs, DuckDB and Polars read every mirrored version of every table; the rows are the ledger's."""

from __future__ import annotations

import pytest

from readers.agreement import DisagreementError, Lakes, agree, find_every_value, versions_to_read
from readers.engines import DeltaRs, DeltaRsDataset, DuckDb, Polars, Reader
from readers.normal import difference, normalise
from readers.tables import CASES, PUT_IN

pytestmark = pytest.mark.e2e

READERS: list[type[Reader]] = [DeltaRs, DeltaRsDataset, DuckDb, Polars]


@pytest.fixture(scope="session")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    return Lakes(tmp_path_factory)


def readers_of(case: str) -> list[object]:
    """All readers; one that has a limit there must still have it."""
    return [
        pytest.param(
            kind,
            case,
            id=f"{kind.name}-{case}",
            marks=[pytest.mark.xfail(reason=limit, raises=DisagreementError)]
            if (limit := kind.limits.get(case))
            else [],
        )
        for kind in READERS
    ]


@pytest.mark.parametrize(("kind", "case"), [pair for case in CASES for pair in readers_of(case)])
def test_reads_every_version_as_the_ledger_has_it(kind: type[Reader], case: str, lakes: Lakes) -> None:
    assert agree(kind(), lakes(case)) == versions_to_read(case)


@pytest.mark.parametrize(("kind", "case"), readers_of("finding values"))
def test_finds_every_value_by_the_statistics(kind: type[Reader], case: str, lakes: Lakes) -> None:
    commits_only, _ = lakes("all_primitives")
    assert find_every_value(kind(), commits_only) == 93


@pytest.mark.parametrize("case", PUT_IN)
def test_the_ledger_gives_back_what_was_put_in(case: str, lakes: Lakes) -> None:
    log, _ = lakes(case)
    found, put_in = log.expected[max(log.expected)], PUT_IN[case]()
    assert difference(found, normalise(put_in)) is None


def test_no_version_is_left_out() -> None:
    """Counted by hand: a case that comes to nothing, or is dropped, shows here."""
    reads = {kind.name: sum(versions_to_read(case) for case in CASES if case not in kind.limits) for kind in READERS}
    assert reads == {"delta-rs": 137, "delta-rs-dataset": 132, "duckdb": 137, "polars": 116}
