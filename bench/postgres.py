"""The PostgreSQL that the tests run on, for measurements: a server of one's own, asked by its Unix socket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"


class Databases:
    """Fresh databases on one server, each for one measurement."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @contextmanager
    def fresh(self) -> Iterator[str]:
        url = self._server.new_database()
        try:
            yield self._server.socket_url(url)
        finally:
            self._server.drop(url)


@contextmanager
def databases() -> Iterator[Databases]:
    # The tests' helpers are plain modules of their folder, which is no package.
    sys.path.append(str(TESTS))
    try:
        server = import_module("postgres_server").server()
    finally:
        sys.path.remove(str(TESTS))
    try:
        yield Databases(server)
    finally:
        server.stop()
