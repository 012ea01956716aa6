"""An empty ledger of every kind that other processes can open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_backends import SHARED, Room, postgres_ledger


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path, made_once: Path) -> Room:
    # The server is only started by the tests that want it.
    return Room(tmp_path, made_once, lambda: request.getfixturevalue("postgres"))


@pytest.fixture(params=SHARED, ids="ledger={}".format)
def kind(request: pytest.FixtureRequest) -> str:
    """Which database. A test that is about some of them names them in a parameter of the same name."""
    return request.param


@pytest.fixture
def url(kind: str, room: Room) -> Iterator[str]:
    """Where an empty ledger is."""
    if kind != "postgresql":
        shutil.copyfile(room.template(f"ledger.{kind}", kind), room.folder / "ledger.db")
        yield f"{kind}:///{room.folder}/ledger.db"
        return
    url = postgres_ledger(room.postgres(), room.made_once)
    yield url
    room.postgres().drop(url)
