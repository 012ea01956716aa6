"""Connections and transactions of a ledger, over the raw driver."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar
from weakref import WeakSet

import tenacity

from deltasql.errors import ConfigError, LedgerBusyError, LedgerRaceError, LedgerUnavailableError, LedgerVersionError
from deltasql.ledger.dialects import Session, dialect_for
from deltasql.ledger.dialects.base import Mode

# The newest migration in `migrations/versions`; a test holds the two equal.
SCHEMA_VERSION = "0003"
VERSION_TABLE = "dl_schema_version"

# For how long what can be repeated is repeated.
RETRY_SECONDS = 30.0

_REPEATED = (LedgerUnavailableError, LedgerRaceError)

_T = TypeVar("_T")


class Ledger:
    """A database that holds the truth of a lake. Safe to share between threads, and across a fork between two calls."""

    def __init__(self, url: str) -> None:
        self.dialect = dialect_for(url)
        # Taken from and given back by single operations of the list: these need no lock, and a fork cannot leave one.
        self._idle: list[Session] = []
        self._free = _permits(self.dialect.pool_size)
        _ledgers.add(self)

    @property
    def url(self) -> str:
        return self.dialect.url

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", self.dialect.url)

    def write(self) -> AbstractContextManager[Session]:
        """A transaction that writes: committed at the end of the block, rolled back where it raises."""
        return self._transaction("write")

    def read(self) -> AbstractContextManager[Session]:
        """One consistent view of the database; nothing is written."""
        return self._transaction("read")

    def look(self) -> AbstractContextManager[Session]:
        """One statement, which needs no transaction around it."""
        return self._transaction("look")

    def repeat(self, work: Callable[[], _T]) -> _T:
        """Do what may be done again, until it is done: a connection that was lost is made anew, a lost race run again.

        What still fails after `RETRY_SECONDS` reaches the caller.
        """
        try:
            return work()
        except _REPEATED:
            pass
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_REPEATED),
            wait=tenacity.wait_random_exponential(multiplier=0.01, max=2),
            stop=tenacity.stop_after_delay(RETRY_SECONDS),
            reraise=True,
        )(work)

    @contextmanager
    def _transaction(self, mode: Mode) -> Generator[Session]:
        session = self._take()
        sound = False
        try:
            session.begin(mode)
            try:
                yield session
            except BaseException:
                sound = self._roll_back(session)
                raise
            if mode == "write":
                session.commit()
            else:
                session.roll_back()
            sound = True
        except Exception as error:
            typed = self.dialect.classify(error)
            if typed is None:
                raise
            if isinstance(typed, LedgerUnavailableError):
                # It is of no more use, and those that lie idle were cut off with it.
                sound = False
                self.close()
            raise typed from error
        finally:
            self._give_back(session, sound=sound)

    def _roll_back(self, session: Session) -> bool:
        """Whether it worked. Where not, the database has done it by itself, and why it did is the better error."""
        try:
            session.roll_back()
        except Exception as error:
            if self.dialect.classify(error) is None:
                raise
            return False
        return True

    def _take(self) -> Session:
        if self._free is not None and not self._free.acquire(timeout=self.dialect.pool_timeout):
            raise LedgerBusyError(
                f"all {self.dialect.pool_size} connections of this process to the ledger are in use",
                hint="let fewer threads at it, end reads that were left half done, or raise pool_size in the URL",
            )
        try:
            return self._next_idle() or self.dialect.open()
        except BaseException:
            self._permit()
            raise

    def _give_back(self, session: Session, *, sound: bool) -> None:
        # A connection that failed to begin or end a transaction is in a state nobody knows.
        if sound and self.dialect.keeps_connections:
            self._idle.append(session)
        else:
            session.close()
        self._permit()

    def _permit(self) -> None:
        if self._free is not None:
            self._free.release()

    def _next_idle(self) -> Session | None:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:
                # Another thread was quicker.
                return None
            if session.pid != os.getpid():
                _inherited.append(session)
            elif session.usable():
                return session
            else:
                session.close()
        return None

    def close(self) -> None:
        while (session := self._next_idle()) is not None:
            session.close()

    def after_fork(self) -> None:
        """What other threads of the parent held is not given back here."""
        self._free = _permits(self.dialect.pool_size)


_Params = ParamSpec("_Params")


def asked_again(read: Callable[_Params, _T]) -> Callable[_Params, _T]:
    """A read that is made once more where its connection is found lost, as an idle one may be after a failover."""

    @wraps(read)
    def twice(*arguments: _Params.args, **options: _Params.kwargs) -> _T:
        try:
            return read(*arguments, **options)
        except LedgerUnavailableError:
            return read(*arguments, **options)

    return twice


def _permits(number: int | None) -> threading.BoundedSemaphore | None:
    return None if number is None else threading.BoundedSemaphore(number)


# Connections found in a child of the process that opened them: they must be neither used nor closed there.
_inherited: list[Session] = []
_ledgers: WeakSet[Ledger] = WeakSet()


def _close_before_fork() -> None:
    """SQLite's locks are the process's. A child that found an open connection would believe that it holds them too,
    and go on writing to a file that the parent, closing its last connection, has removed.
    """
    for ledger in list(_ledgers):
        ledger.close()


def _renew_after_fork() -> None:
    for ledger in list(_ledgers):
        ledger.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork, after_in_child=_renew_after_fork)


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
    try:
        with ledger.read() as session:
            ledger.dialect.check(session)
    except BaseException:
        ledger.close()
        raise
    return ledger


def find_ledger(url: str) -> tuple[Ledger, str | None]:
    """A database, and the migration it stands at: None, with nothing made, where it holds no ledger."""
    ledger = Ledger(url)
    # SQLite makes a file where there is none, so it must not even be asked.
    if not ledger.dialect.exists():
        return ledger, None
    return ledger, schema_version(ledger)


def no_ledger(ledger: Ledger) -> ConfigError:
    return ConfigError(
        f"there is no ledger at {ledger.dialect.shown()}",
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
