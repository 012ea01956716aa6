"""A ledger of every kind, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_backends import BACKENDS, SHARED, LedgerUnderTest, Room


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path, made_once: Path) -> Room:
    # The server is only started by the tests that want it.
    return Room(tmp_path, made_once, lambda: request.getfixturevalue("postgres"))


@pytest.fixture(params=list(BACKENDS), ids="ledger={}".format)
def ledger(request: pytest.FixtureRequest, room: Room) -> Iterator[LedgerUnderTest]:
    made = BACKENDS[request.param](room)
    yield made
    made.close()


@pytest.fixture(params=SHARED, ids="shared={}".format)
def shared_ledger(request: pytest.FixtureRequest, room: Room) -> Iterator[LedgerUnderTest]:
    made = BACKENDS[request.param](room)
    yield made
    made.close()
