"""What every database must answer, and the statements of one transaction in the way most drivers take them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from deltasql.errors import DeltaSqlError
from deltasql.ledger import statements as sql

# How long a writer waits for another one's lock before the caller hears of it.
LOCK_TIMEOUT_SECONDS = 30.0

# To look is to ask one statement, which needs no transaction around it.
Mode = Literal["look", "read", "write"]
Row = Sequence[Any]


class Change(msgspec.Struct, frozen=True):
    """One statement."""

    statement: str
    parameters: Row


class Insert(msgspec.Struct, frozen=True):
    """Rows for one table. How they get there depends on their number and on the database."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


class EndLives(msgspec.Struct, frozen=True):
    """Note on the live rows with these keys that they count until `version`."""

    table: str
    end: str
    key: tuple[str, ...]
    table_id: int
    version: int
    keys: Sequence[Row]


Write = Change | Insert | EndLives


class Session:
    """Statements inside one transaction, over a driver of Python's DB-API that takes `?`."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.pid = os.getpid()
        self._connection = connection
        self._dialect = dialect
        self._mode: Mode = "look"
        self._spell = lru_cache(maxsize=512)(dialect.respell)

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    # -- the ends of a transaction ------------------------------------------------------------------------------------

    def begin(self, mode: Mode) -> None:
        self._mode = mode
        if mode != "look":
            self._connection.execute(self._dialect.begin_write if mode == "write" else self._dialect.begin_read)

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        if self._mode != "look":
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def usable(self) -> bool:
        """Whether a connection that lay idle can still be used, as far as can be seen without asking the server."""
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    def row(self, statement: str, parameters: Row = ()) -> tuple[Any, ...] | None:
        return self._execute(statement, parameters).fetchone()

    def rows(self, statement: str, parameters: Row = ()) -> list[tuple[Any, ...]]:
        return self._execute(statement, parameters).fetchall()

    def row_of_each(self, questions: Sequence[tuple[str, Row]]) -> list[tuple[Any, ...] | None]:
        """A row for each question, asked in their order, with one wait where the database allows that."""
        return [self.row(statement, parameters) for statement, parameters in questions]

    def batches(self, statement: str, parameters: Row, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a large answer, a part at a time. Nothing else may be asked until they are all read."""
        cursor = self._execute(statement, parameters)
        while rows := cursor.fetchmany(size):
            yield rows

    def now(self) -> int:
        """The database's clock, in milliseconds."""
        row = self.row(f"SELECT {self._dialect.clock}")
        assert row is not None
        return int(row[0])

    # -- writing ------------------------------------------------------------------------------------------------------

    def change(self, statement: str, parameters: Row = ()) -> int:
        """Run one statement and say how many rows it touched."""
        return self.send([Change(statement, parameters)])[0]

    def send(self, writes: Sequence[Write]) -> list[int]:
        """Run these with as few waits for the database as it allows; how many rows each touched.

        In their order, but that large inserts may come last.
        """
        return [self._write(write) for write in writes]

    def may_end_with(self, writes: Sequence[Write]) -> bool:
        """Whether these writes and the commit after them can be sent as one; only worth it where waits are dear."""
        del writes
        return False

    def end_with(self, writes: Sequence[Write]) -> None:
        """Run these and commit, if the last of them touches one row; an error, and nothing is committed, if not."""
        raise NotImplementedError

    def announce(self) -> None:
        """Wake those who listen for commits, once this one stands; for databases that can."""

    def lock_lake(self) -> None:
        """Make everybody else who calls this wait until the transaction ends. One that writes is alone already."""

    def _execute(self, statement: str, parameters: Row) -> Any:
        return self._connection.execute(self._spell(statement), parameters)

    def _write(self, write: Write) -> int:
        statement, rows = rows_of(write)
        if len(rows) == 1:
            return self._execute(statement, rows[0]).rowcount
        return self._connection.executemany(self._spell(statement), rows).rowcount if rows else 0


def rows_of(write: Write) -> tuple[str, Sequence[Row]]:
    """A write as one statement, and the rows to run it with."""
    match write:
        case Change():
            return write.statement, [write.parameters]
        case Insert():
            return sql.insert(write.table, write.columns), write.rows
        case EndLives():
            rows = [(write.version, write.table_id, *key) for key in write.keys]
            return sql.end_life(write.table, write.end, write.key), rows


class Dialect(Protocol):
    """One kind of database."""

    name: str
    url: str
    # How a transaction that will write begins, so that it never has to upgrade a read lock.
    begin_write: str
    begin_read: str
    # The statements that begin a migration, alone in the database.
    begin_migration: tuple[str, ...]
    # Appended to a statement that reads a row about to be changed.
    lock_row: str
    # The database's own clock, in milliseconds since the epoch.
    clock: str
    # The members of a list of whole numbers that is given as one value, as a subquery or an array.
    members: str
    # A row where a table of the given name exists.
    find_table: str
    # How many connections a process may have open, and how many seconds a caller waits for one; None: no limit.
    pool_size: int | None
    pool_timeout: float
    # Whether connections are kept open between transactions.
    keeps_connections: bool

    def shown(self) -> str:
        """Where the ledger is, in words that hold no secret."""
        ...

    def exists(self) -> bool:
        """Whether there is a database to ask; asking some that do not exist would make them."""
        ...

    def open(self) -> Session:
        """A new connection, in autocommit: transactions are begun and ended by SQL."""
        ...

    def connect(self) -> Any:
        """The same as the raw driver gives it."""
        ...

    def check(self, session: Session) -> None:
        """Refuse a server whose settings would lose what it has acknowledged."""
        ...

    def sqlalchemy_url(self) -> str:
        """Which kind of database this is, for migrations."""
        ...

    def sqlalchemy_connection(self) -> Any:
        """A connection for migrations, as SQLAlchemy wants it."""
        ...

    def index_hint(self, name: str) -> str:
        """After the name of a table: by which index it shall be searched, where the database must be told."""
        ...

    def text_or_mark(self, column: str) -> str:
        """A column of text that may be NULL, in a statement for `arrow`: where the driver needs it, with `NO_TEXT`."""
        ...

    def arrow(self, session: Session, statement: str, parameters: Row, size: int) -> Iterator[Any]:
        """The answer to a statement as Arrow record batches of about this many rows, made by the driver.

        It may come over another connection, so it must not depend on when it is asked.
        """
        ...

    def list_of(self, numbers: Sequence[int]) -> Any:
        """A list as the one value that `members` takes."""
        ...

    def respell(self, statement: str) -> str:
        """A statement with the driver's placeholders."""
        ...

    def classify(self, error: Exception) -> DeltaSqlError | None:
        """A driver's error as one of ours, by its code; None where it is not the driver's."""
        ...
