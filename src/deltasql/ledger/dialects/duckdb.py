"""DuckDB: one file that one process holds at a time. So it is opened for each transaction and closed after it."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from random import random
from typing import Any
from urllib.parse import quote

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerRaceError,
    UnsupportedError,
)
from deltasql.ledger.contracts import LIVE
from deltasql.ledger.dialects.base import (
    LOCK_TIMEOUT_SECONDS,
    Change,
    EndLives,
    Insert,
    Mode,
    Row,
    Session,
    Write,
    rows_of,
)
from deltasql.ledger.dialects.paths import path_in

try:
    import duckdb
except ImportError as error:
    raise UnsupportedError(
        "a DuckDB ledger needs the package duckdb", hint="pip install 'deltasql[duckdb]'", field="ledger"
    ) from error

_RETRY_SECONDS = 0.02
# What every DuckDB file begins with, in bytes, and how long its making may take.
_HEADERS = 3 * 4_096
_BIRTH_SECONDS = 2.0

# From this many rows on they go in as one Arrow table: DuckDB takes single rows slowly.
_BULK_ROWS = 8

# No extension is looked for, least of all in the network: given a file of SQLite, DuckDB would otherwise write to it.
_CONFIG: dict[str, Any] = {"autoinstall_known_extensions": "false", "extension_directory": os.devnull}

# Held by the one transaction of this process that writes, by path: two at once would mostly end in conflicts.
_writing: dict[str, threading.Lock] = {}


def _forget() -> None:
    """A child of a fork holds nothing: the locks of other threads would never be given back to it."""
    _writing.clear()


os.register_at_fork(after_in_child=_forget)


class DuckdbSession(Session):
    """One transaction, on a connection of its own. All of a process share what DuckDB holds of the file."""

    def __init__(self, dialect: DuckdbDialect) -> None:
        super().__init__(None, dialect)
        self._connection: Any = None
        self._file = dialect
        self._turn: threading.Lock | None = None

    def begin(self, mode: Mode) -> None:
        if mode == "write":
            turn = _writing.setdefault(self._file.url, threading.Lock())
            if not turn.acquire(timeout=LOCK_TIMEOUT_SECONDS):
                raise LedgerBusyError(
                    f"another thread of this process holds {self._file.path}", hint="try again, or find the thread"
                )
            self._turn = turn
        self._connection = self._file.connect()
        super().begin(mode)

    def roll_back(self) -> None:
        if self._connection is not None:
            super().roll_back()

    def close(self) -> None:
        try:
            if self._connection is not None:
                self._connection.close()
        finally:
            self._connection = None
            if self._turn is not None:
                self._turn.release()
                self._turn = None

    def arrow(self, statement: str, parameters: Row, size: int) -> Iterator[Any]:
        yield from self._execute(statement, parameters).to_arrow_reader(size)

    def _write(self, write: Write) -> int:
        if not isinstance(write, Change) and len(rows_of(write)[1]) >= _BULK_ROWS:
            return self._insert_many(write) if isinstance(write, Insert) else self._end_many(write)
        statement, rows = rows_of(write)
        return sum(_count(self._execute(statement, row)) for row in rows)

    def _insert_many(self, write: Insert) -> int:
        columns = ", ".join(write.columns)
        return self._with_rows(write.columns, write.rows, f"INSERT INTO {write.table} ({columns}) SELECT * FROM given")

    def _end_many(self, write: EndLives) -> int:
        same = " AND ".join(f"t.{column} = given.{column}" for column in write.key)
        statement = (
            # DuckDB counts a row as often as it is named.
            f"UPDATE {write.table} t SET {write.end} = ? FROM (SELECT DISTINCT * FROM given) given "
            f"WHERE t.table_id = ? AND {same} AND t.{write.end} = {LIVE}"
        )
        return self._with_rows(write.key, write.keys, statement, (write.version, write.table_id))

    def _with_rows(self, columns: Sequence[str], rows: Sequence[Row], statement: str, parameters: Row = ()) -> int:
        """Run a statement that finds these rows under the name `given`."""
        import pyarrow as pa

        arrays = [pa.array(column) for column in zip(*rows, strict=True)]
        self._connection.register("given", pa.Table.from_arrays(arrays, names=list(columns)))
        try:
            return _count(self._execute(statement, parameters))
        finally:
            self._connection.unregister("given")


def _count(result: Any) -> int:
    """How many rows a statement touched: DuckDB answers with a row that says it."""
    row = result.fetchone()
    return 0 if row is None else int(row[0])


class DuckdbDialect:
    name = "duckdb"
    begin_write = "BEGIN TRANSACTION"
    begin_read = "BEGIN TRANSACTION"
    # Its SQLAlchemy dialect begins by itself.
    begin_migration = ()
    # Whoever writes is alone.
    lock_row = ""
    clock = "epoch_ms(current_timestamp)"
    members = "IN (SELECT unnest(CAST(? AS INTEGER[])))"
    find_table = "SELECT 1 FROM duckdb_tables() WHERE table_name = ?"
    pool_size: int | None = None
    pool_timeout = LOCK_TIMEOUT_SECONDS
    keeps_connections = False

    def __init__(self, url: str) -> None:
        self.path = path_in(url, "DuckDB")
        self.url = f"duckdb:///{quote(os.fsencode(self.path))}"

    def shown(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return os.access(self.path, os.F_OK)

    def open(self) -> DuckdbSession:
        return DuckdbSession(self)

    def check(self, session: Session) -> None:
        """DuckDB has no setting that would lose an acknowledged commit."""

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Open the file, waiting for another process to let it go, but not for ever."""
        began = time.monotonic()
        while True:
            try:
                return duckdb.connect(str(self.path), config=_CONFIG)
            except duckdb.Error as error:
                typed, waited = self._typed(error), time.monotonic() - began
                held = isinstance(typed, LedgerBusyError) and waited <= LOCK_TIMEOUT_SECONDS
                if not held and not (self._is_unfinished() and waited <= _BIRTH_SECONDS):
                    raise typed from error
            # Not all at the same moment again.
            time.sleep(_RETRY_SECONDS * (0.5 + random()))  # noqa: S311

    def _is_unfinished(self) -> bool:
        """Whether another process may be making the file just now: it has not got its three headers yet."""
        try:
            return self.path.is_file() and self.path.stat().st_size < _HEADERS
        except OSError:
            return False

    def sqlalchemy_url(self) -> str:
        return "duckdb://"

    def sqlalchemy_connection(self) -> Any:
        # Made for migrations alone, and heavy: nobody else shall wait for it.
        from duckdb_engine import ConnectionWrapper

        return ConnectionWrapper(self.connect())

    def text_or_mark(self, column: str) -> str:
        return column

    def arrow(self, session: Session, statement: str, parameters: Row, size: int) -> Iterator[Any]:
        assert isinstance(session, DuckdbSession)
        yield from session.arrow(statement, parameters, size)

    def index_hint(self, name: str) -> str:
        del name
        return ""

    def list_of(self, numbers: Sequence[int]) -> Any:
        return list(numbers)

    def respell(self, statement: str) -> str:
        return statement

    def classify(self, error: Exception) -> DeltaSqlError | None:
        return self._typed(error) if isinstance(error, duckdb.Error) else None

    def _typed(self, error: duckdb.Error) -> DeltaSqlError:
        text = f"the ledger {self.path} answered {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        match _meaning(error):
            case "held":
                holder = re.search(r"PID (\d+)", str(error))
                who = f"process {holder[1]}" if holder else "another process"
                return LedgerBusyError(
                    f"{who} holds the DuckDB ledger {self.path}",
                    hint="one process at a time may have it open: end that one, or use a PostgreSQL or SQLite ledger",
                    field="ledger",
                )
            case "race":
                return LedgerRaceError(text, hint="another transaction was first; try again")
            case "full":
                return LedgerFullError(text, hint=f"free space on the disk that holds {self.path}, then try again")
            case "path":
                return ConfigError(
                    text, hint=f"make sure {self.path.parent} exists and this user may write in it", field="ledger"
                )
            case "not_duckdb":
                return ConfigError(text, hint="name a DuckDB file, or a path where none is yet", field="ledger")
            case "corrupt":
                return LedgerCorruptError(text, hint="stop writing and restore the database from a backup")
            case _:
                return LedgerError(text, hint="the transaction was rolled back; the text above says why")


# What an error says, and what that means: DuckDB has classes but no codes, so its text must be read; here and nowhere
# else. A commit that fails for whatever reason is an error of the transaction.
_MEANINGS = (
    ("Could not set lock", "held"),
    ("No space left", "full"),
    ("not a valid DuckDB database", "not_duckdb"),
    # It takes a file of another database for one that an extension can read.
    ('Extension "', "not_duckdb"),
    ("Corrupt ", "corrupt"),
    ("Could not read enough bytes", "corrupt"),
    ("Cannot open file", "path"),
    ("Is a directory", "path"),
    ("onflict on", "race"),
    ("constraint violation", "race"),
)
_READ = (duckdb.IOException, duckdb.TransactionException, duckdb.SerializationException, duckdb.FatalException)


def _meaning(error: duckdb.Error) -> str | None:
    # Errors of other classes quote statements and values, which may hold the same words.
    if not isinstance(error, _READ):
        return None
    return next((meaning for words, meaning in _MEANINGS if words in str(error)), None)
