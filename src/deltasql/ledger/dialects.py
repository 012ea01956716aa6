"""What differs between databases, and nothing else. One class a database."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    UnsupportedError,
)

_EXAMPLES = "give one like sqlite:///lake.db (a relative path) or sqlite:////data/lake.db (an absolute one)"

# How long a writer waits for another one's lock before the caller hears of it.
LOCK_TIMEOUT_SECONDS = 30.0
_RETRY_SECONDS = 0.005


class Dialect(Protocol):
    """One kind of database."""

    name: str
    url: str
    # How a transaction that will write begins, so that it never has to upgrade a read lock.
    begin_write: str
    begin_read: str
    # Appended to the statement that reads the head row of a table about to be committed to.
    lock_row: str
    # The database's own clock, in milliseconds since the epoch.
    clock: str
    # A row where a table of the given name exists.
    find_table: str

    def connect(self) -> Any:
        """A new connection of the raw driver, in autocommit: transactions are begun and ended by SQL."""
        ...

    def sqlalchemy_url(self) -> str:
        """Which kind of database this is, for migrations; the connection they run on is one of `connect`."""
        ...

    def respell(self, sql: str) -> str:
        """A statement with the driver's placeholders."""
        ...

    def classify(self, error: Exception) -> DeltaSqlError | None:
        """A driver's error as one of ours, by its code; None where it is not the driver's."""
        ...


def dialect_for(url: str) -> Dialect:
    """The dialect a ledger URL asks for."""
    text = isinstance(url, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    scheme = url.partition("://")[0] if text and "://" in url else ""
    match scheme:
        case "sqlite":
            return SqliteDialect(url)
        case "postgresql" | "postgres" | "duckdb":
            raise UnsupportedError(
                f"{scheme} ledgers are not there yet", hint="use sqlite:///path/to/lake.db", field="ledger"
            )
        case _:
            raise ConfigError("this is not the URL of a ledger", hint=_EXAMPLES, field="ledger")


class SqliteDialect:
    name = "sqlite"
    begin_write = "BEGIN IMMEDIATE"
    begin_read = "BEGIN"
    # BEGIN IMMEDIATE has locked everything already.
    lock_row = ""
    clock = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    find_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"

    def __init__(self, url: str) -> None:
        quoted = url.removeprefix("sqlite://")
        if "?" in quoted or "#" in quoted:
            raise ConfigError(
                "the URL of a SQLite ledger has no options",
                hint="leave out what follows ? or #; in the name of a file, write %3F or %23",
                field="ledger",
            )
        path = unquote(quoted)
        if not _can_name_a_file(path):
            raise ConfigError(
                "a SQLite ledger needs a file that other processes can open too", hint=_EXAMPLES, field="ledger"
            )
        # Made absolute at once: a later change of folder must not change the database.
        self.path = Path(path[1:]).absolute()
        self.url = f"sqlite:///{quote(os.fsencode(self.path))}"

    def connect(self) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=LOCK_TIMEOUT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            _use_wal(connection)
            # A commit that was acknowledged survives the loss of power. The default of WAL would not promise it.
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise self._typed(error) from error
        return connection

    def sqlalchemy_url(self) -> str:
        return "sqlite://"

    def respell(self, sql: str) -> str:
        return sql

    def classify(self, error: Exception) -> DeltaSqlError | None:
        return self._typed(error) if isinstance(error, sqlite3.Error) else None

    def _typed(self, error: sqlite3.Error) -> DeltaSqlError:
        code = getattr(error, "sqlite_errorcode", None)
        # The low byte is the primary code; the rest says more precisely what happened.
        primary = None if code is None else code & 0xFF
        name = getattr(error, "sqlite_errorname", None) or type(error).__name__
        text = f"the ledger {self.path} answered {name}: {error}"
        match primary:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return LedgerBusyError(text, hint="another process holds the database; try again, or find the holder")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_AUTH:
                return ConfigError(
                    text, hint=f"make sure {self.path.parent} exists and this user may write in it", field="ledger"
                )
            case sqlite3.SQLITE_NOTADB:
                return ConfigError(text, hint="name a SQLite file, or a path where none is yet", field="ledger")
            case sqlite3.SQLITE_CORRUPT:
                return LedgerCorruptError(text, hint="stop writing and restore the database from a backup")
            case sqlite3.SQLITE_FULL:
                return LedgerFullError(text, hint=f"free space on the disk that holds {self.path}, then try again")
            case _:
                return LedgerError(text, hint="the transaction was rolled back; the code above says why")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Choose write-ahead logging. Of several processes that do so first, SQLite sends all but one away at once."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _can_name_a_file(path: str) -> bool:
    """Whether the part of a URL after `sqlite://` is a slash and a path."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return path.startswith("/") and path not in ("/", "/:memory:") and "\0" not in path
