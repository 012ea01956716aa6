"""Hearing of commits: at once where the database tells, soon where it must be looked at."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

from deltasql.errors import LedgerUnavailableError
from deltasql.ledger.dialects.base import Dialect

# How often a database that tells nothing is looked at. Each look is one number read, and waits for no lock.
_LOOK_SECONDS = 0.02


class Listener(Protocol):
    """Hears that something was committed; what it was, the ledger is asked."""

    def wait(self, seconds: float) -> bool:
        """Wait until something may have been committed, at most this long; False where nothing was."""
        ...

    def close(self) -> None: ...


def listen(dialect: Dialect) -> Listener:
    """A listener that hears of every commit from now on, whichever process made it."""
    match dialect.name:
        case "postgresql":
            return _Notified(dialect)
        case "sqlite":
            return _Counted(dialect)
        case _:
            return _Stamped(dialect)


class _Notified:
    """PostgreSQL tells. A connection that is lost is made anew, and what it may have missed counts as a commit."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._connection: Any = self._open()

    def wait(self, seconds: float) -> bool:
        import psycopg

        try:
            if self._connection is None:
                self._connection = self._open()
                return True
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except (psycopg.OperationalError, LedgerUnavailableError):
            self.close()
            time.sleep(min(seconds, 1.0))
            return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Any:
        from deltasql.ledger.dialects.postgresql import CHANNEL

        connection = self._dialect.connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection


class _Polled:
    """A database that is looked at until it has changed."""

    def __init__(self) -> None:
        self._seen = self._look()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            found = self._look()
            if found != self._seen:
                self._seen = found
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_LOOK_SECONDS, left))

    def close(self) -> None:
        """Nothing is held."""

    def _look(self) -> object:
        raise NotImplementedError


class _Counted(_Polled):
    """SQLite counts, for each connection, the commits of all others."""

    def __init__(self, dialect: Dialect) -> None:
        self._connection = dialect.connect()
        super().__init__()

    def close(self) -> None:
        self._connection.close()

    def _look(self) -> object:
        return self._connection.execute("PRAGMA data_version").fetchone()


class _Stamped(_Polled):
    """A DuckDB file is only stat'ed: to open it would keep every other process out."""

    def __init__(self, dialect: Dialect) -> None:
        self._files = (Path(dialect.shown()), Path(f"{dialect.shown()}.wal"))
        super().__init__()

    def _look(self) -> object:
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 (Path.stat would build an object a look)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
