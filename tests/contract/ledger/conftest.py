"""A ledger of every kind, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_backends import BACKENDS, SHARED, LedgerUnderTest


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture(params=list(BACKENDS), ids="ledger={}".format)
def ledger(request: pytest.FixtureRequest, tmp_path: Path, made_once: Path) -> Iterator[LedgerUnderTest]:
    made = BACKENDS[request.param](tmp_path, made_once)
    yield made
    made.close()


@pytest.fixture(params=SHARED, ids="shared={}".format)
def shared_ledger(request: pytest.FixtureRequest, tmp_path: Path, made_once: Path) -> Iterator[LedgerUnderTest]:
    made = BACKENDS[request.param](tmp_path, made_once)
    yield made
    made.close()
