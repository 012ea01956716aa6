"""A ledger of every kind that is a database, one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltasql.ledger.engine import Ledger, open_ledger
from ledger_backends import SHARED, Room, postgres_ledger
from postgres_server import PostgresServer


@pytest.fixture(params=SHARED, ids="ledger={}".format)
def kind(request: pytest.FixtureRequest) -> str:
    """Which database. A module that is about one of them names it in a fixture of the same name."""
    return request.param


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path, made_once: Path) -> Room:
    # The server is only started by the tests that want it.
    return Room(tmp_path, made_once, lambda: request.getfixturevalue("postgres"))


@pytest.fixture
def empty_url(kind: str, room: Room) -> Iterator[str]:
    """Where a ledger may be made."""
    if kind != "postgresql":
        yield f"{kind}:///{room.folder}/ledger.db"
        return
    url = room.postgres().new_database()
    yield url
    room.postgres().drop(url)


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


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = open_ledger(url)
    yield ledger
    ledger.close()


@pytest.fixture
def server(room: Room) -> PostgresServer:
    return room.postgres()
