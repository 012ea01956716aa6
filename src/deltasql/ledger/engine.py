"""Connections and transactions of a ledger, over the raw driver."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from deltasql.errors import ConfigError, LedgerVersionError
from deltasql.ledger.dialects import Dialect, SqliteDialect, dialect_for

# The newest migration in `migrations/versions`; a test holds the two equal.
SCHEMA_VERSION = "0001"
VERSION_TABLE = "dl_schema_version"


class Session:
    """Statements inside one transaction."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.pid = os.getpid()
        self._connection = connection
        self._dialect = dialect
        self._spell = lru_cache(maxsize=512)(dialect.respell)

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        return self._connection.execute(self._spell(sql), parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Any:
        return self._connection.executemany(self._spell(sql), rows)

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return self.execute(sql, parameters).fetchone()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.execute(sql, parameters).fetchall()

    def batches(self, sql: str, parameters: Sequence[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self.execute(sql, parameters)
        while rows := cursor.fetchmany(size):
            yield rows

    def close(self) -> None:
        self._connection.close()

    def now(self) -> int:
        """The database's clock, in milliseconds."""
        row = self.row(f"SELECT {self._dialect.clock}")
        assert row is not None
        return int(row[0])


class Ledger:
    """A database that holds the truth of a lake. Safe to share between threads, and across a fork between two calls."""

    def __init__(self, url: str) -> None:
        self.dialect = dialect_for(url)
        # Taken from and given back by single operations of the list: these need no lock, and a fork cannot leave one.
        self._idle: list[Session] = []
        _ledgers.add(self)

    @property
    def url(self) -> str:
        return self.dialect.url

    @contextmanager
    def write(self) -> Generator[Session]:
        """A transaction that writes: committed at the end of the block, rolled back where it raises."""
        with self._transaction(self.dialect.begin_write, "COMMIT") as session:
            yield session

    @contextmanager
    def read(self) -> Generator[Session]:
        """One consistent view of the database; nothing is written."""
        with self._transaction(self.dialect.begin_read, "ROLLBACK") as session:
            yield session

    @contextmanager
    def _transaction(self, begin: str, end: str) -> Generator[Session]:
        session = self._take()
        sound = False
        try:
            session.execute(begin)
            try:
                yield session
            except BaseException:
                sound = self._roll_back(session)
                raise
            session.execute(end)
            sound = True
        except Exception as error:
            typed = self.dialect.classify(error)
            if typed is None:
                raise
            raise typed from error
        finally:
            # A connection that failed to begin or end a transaction is in a state nobody knows.
            if sound:
                self._give_back(session)
            else:
                session.close()

    def _roll_back(self, session: Session) -> bool:
        """Whether it worked. Where not, the database has done it by itself, and why it did is the better error."""
        try:
            session.execute("ROLLBACK")
        except Exception as error:
            if self.dialect.classify(error) is None:
                raise
            return False
        return True

    def _take(self) -> Session:
        return self._next_idle() or Session(self.dialect.connect(), self.dialect)

    def _give_back(self, session: Session) -> None:
        self._idle.append(session)

    def _next_idle(self) -> Session | None:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:
                # Another thread was quicker.
                return None
            if session.pid == os.getpid():
                return session
            _inherited.append(session)
        return None

    def close(self) -> None:
        while (session := self._next_idle()) is not None:
            session.close()


# Connections found in a child of the process that opened them: they must be neither used nor closed there.
_inherited: list[Session] = []
_ledgers: WeakSet[Ledger] = WeakSet()


def _close_before_fork() -> None:
    """SQLite's locks are the process's. A child that found an open connection would believe that it holds them too,
    and go on writing to a file that the parent, closing its last connection, has removed.
    """
    for ledger in list(_ledgers):
        ledger.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork)


def open_ledger(url: str, *, create: bool = True) -> Ledger:
    """Open a ledger. One of another release is refused, never migrated here.

    With `create` an empty database becomes a ledger; without, it is refused and no file is made.
    """
    ledger, found = find_ledger(url)
    if found is None:
        if not create:
            raise no_ledger(ledger)
        from deltasql.ledger.migrate import migrate

        migrate(ledger)
    elif found != SCHEMA_VERSION:
        ledger.close()
        raise other_release(found)
    return ledger


def find_ledger(url: str) -> tuple[Ledger, str | None]:
    """A database, and the migration it stands at: None, with nothing made, where it holds no ledger."""
    ledger = Ledger(url)
    # SQLite makes a file where there is none, so it must not even be asked.
    if isinstance(ledger.dialect, SqliteDialect) and not os.access(ledger.dialect.path, os.F_OK):
        return ledger, None
    return ledger, schema_version(ledger)


def no_ledger(ledger: Ledger) -> ConfigError:
    # Not the URL: that of a server may hold a password.
    place = ledger.dialect.path if isinstance(ledger.dialect, SqliteDialect) else "this URL"
    return ConfigError(
        f"there is no ledger at {place}",
        hint="correct the URL, or make a ledger: deltasql init --ledger URL --root PATH",
        field="ledger",
    )


def other_release(found: str) -> LedgerVersionError:
    return LedgerVersionError(
        f"the ledger has schema version {found}, this release needs {SCHEMA_VERSION}",
        hint="run: deltasql migrate --ledger URL"
        if found < SCHEMA_VERSION
        else "install the newer release of deltasql",
        field="ledger",
    )


def schema_version(ledger: Ledger) -> str | None:
    """The migration a database stands at; None where it holds no ledger."""
    with ledger.read() as session:
        if not session.rows(session.dialect.find_table, (VERSION_TABLE,)):
            return None
        row = session.row(f"SELECT version_num FROM {VERSION_TABLE}")
        return None if row is None else str(row[0])
