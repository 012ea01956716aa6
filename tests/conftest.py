"""What tests of every kind may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgres_server import PostgresServer, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL, one for each process of a test run."""
    running = server()
    yield running
    running.stop()
