"""SQLite: one file, one writer at a time, any number of readers beside it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
)
from deltasql.ledger.arrow import NO_TEXT
from deltasql.ledger.dialects.base import LOCK_TIMEOUT_SECONDS, Row, Session
from deltasql.ledger.dialects.paths import path_in

_RETRY_SECONDS = 0.005


class SqliteDialect:
    name = "sqlite"
    begin_write = "BEGIN IMMEDIATE"
    begin_read = "BEGIN"
    begin_migration = (begin_write,)
    # BEGIN IMMEDIATE has locked everything already.
    lock_row = ""
    clock = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    members = "IN (SELECT value FROM json_each(?))"
    find_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"

    pool_size: int | None = None
    pool_timeout = LOCK_TIMEOUT_SECONDS
    keeps_connections = True

    def __init__(self, url: str) -> None:
        # Made absolute at once: a later change of folder must not change the database.
        self.path = path_in(url, "SQLite")
        self.url = f"sqlite:///{quote(os.fsencode(self.path))}"

    def shown(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return os.access(self.path, os.F_OK)

    def open(self) -> Session:
        return Session(self.connect(), self)

    def check(self, session: Session) -> None:
        """Every connection chooses what is safe for itself."""

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

    def sqlalchemy_connection(self) -> Any:
        return self.connect()

    def text_or_mark(self, column: str) -> str:
        # Its driver for Arrow takes a column for numbers whose first values are all NULL.
        return f"COALESCE({column}, char({ord(NO_TEXT)}))"

    def arrow(self, session: Session, statement: str, parameters: Row, size: int) -> Iterator[Any]:
        del session
        from adbc_driver_sqlite import StatementOptions, dbapi

        try:
            with (
                dbapi.connect(str(self.path)) as connection,
                connection.cursor(adbc_stmt_kwargs={StatementOptions.BATCH_ROWS.value: str(size)}) as cursor,
            ):
                cursor.execute(statement, tuple(parameters))
                yield from cursor.fetch_record_batch()
        except dbapi.Error as error:
            raise LedgerError(
                f"the ledger {self.path} could not be read as Arrow: {error}", hint="the text says why; try again"
            ) from error

    def index_hint(self, name: str) -> str:
        # Without statistics of the data it would take the first index that fits.
        return f" INDEXED BY {name}"

    def list_of(self, numbers: Sequence[int]) -> Any:
        return f"[{','.join(map(str, numbers))}]"

    def respell(self, statement: str) -> str:
        return statement

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
