"""PostgreSQL's errors as ours, by SQLSTATE. Only of a refused connection the text must be read: libpq keeps no code."""

from __future__ import annotations

import re

import psycopg

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    LedgerBusyError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
    LedgerRaceError,
    LedgerUnavailableError,
    UnsupportedError,
)

_RACES = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "23505",  # unique_violation: somebody else was first; a second look finds what they made
        "55006",  # object_in_use
        "22012",  # division_by_zero: our own guard found that a row was not as it was when it was locked
    }
)
_LOCKED = frozenset({"55P03", "57014"})  # lock_not_available, query_canceled
_CROWDED = frozenset({"53200", "53300"})  # out_of_memory, too_many_connections
_FULL = frozenset({"53100"})  # disk_full
_CORRUPT = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
_TOO_LONG = frozenset({"54000"})  # program_limit_exceeded: a value that no index can hold
# A class of codes: connections and operator intervention (a server that shuts down, starts up, or ends a session).
_GONE = ("08", "57P", "25P03")

# Why a connection was not made, and the code the server had for it. In another language these words are not found,
# and the server counts as one that cannot be reached.
_REFUSALS = (
    (r"password authentication failed|no password supplied", "28P01"),
    (r"pg_hba\.conf|role .* does not exist|not permitted to log in", "28000"),
    (r"database .* does not exist", "3D000"),
    (r"permission denied for database", "42501"),
    (r"too many (clients|connections)|connection slots are reserved", "53300"),
    # What the driver says of itself, and of an option that it handed on, in no code of the server's.
    (r"certificate|SSL was required", "ssl"),
    (r"invalid \w+ value|bad value for|unrecognized configuration parameter", "option"),
)


def classify(error: psycopg.Error, place: str) -> DeltaSqlError:
    """What an error of the driver means for the caller. `place` says where the ledger is."""
    name = type(error).__name__ if error.sqlstate is None else f"{type(error).__name__} ({error.sqlstate})"
    text = f"the ledger in {place} answered {name}: {_said(error)}"
    state = error.sqlstate or _refusal(error)
    if state is None:
        # Without a code it was not the server that spoke: the connection failed, or the driver was misused.
        lost = isinstance(error, psycopg.OperationalError)
        return _gone(text) if lost else LedgerError(text, hint="the transaction was rolled back; the text says why")
    if state in _RACES:
        return LedgerRaceError(text, hint="another transaction was first; try again")
    if state in _LOCKED:
        return LedgerBusyError(text, hint="another transaction holds the row; find it in pg_stat_activity")
    if state in _CROWDED:
        return LedgerBusyError(text, hint="too much at once for this server; try again, or raise its limits")
    if state in _FULL:
        return LedgerFullError(text, hint="free space on the server's disk, then try again")
    if state in _CORRUPT:
        return LedgerCorruptError(text, hint="stop writing and restore the database from a backup")
    if state in _TOO_LONG:
        return UnsupportedError(text, hint="shorten the value", field="actions")
    if state.startswith(_GONE):
        return _gone(text)
    if hint := _config_hint(state):
        return ConfigError(text, hint=hint, field="ledger")
    return LedgerError(text, hint="the transaction was rolled back; the code above says why")


def _refusal(error: psycopg.Error) -> str | None:
    return next((state for words, state in _REFUSALS if re.search(words, _said(error))), None)


def _gone(text: str) -> LedgerUnavailableError:
    return LedgerUnavailableError(text, hint="make sure the server runs and can be reached, then try again")


def _config_hint(state: str) -> str | None:
    """What to put right, where the code says that the way to the database is wrong rather than the database."""
    if state.startswith("28"):
        return "check user, password and pg_hba.conf"
    return {
        "ssl": "correct sslmode or sslrootcert in the URL, or the server's certificate",
        "option": "correct this option in the URL",
        "3D000": "create the database, or correct its name in the URL",
        "3F000": "create the schema, or correct search_path in the URL",
        "42501": "use a role that may do this: see docs/roles.md",
        "42P01": "the schema is not whole: run deltasql migrate --ledger URL",
        "25006": "this server only reads: give the URL of the primary",
        "22021": "use a database with encoding UTF8",
        "22P05": "use a database with encoding UTF8",
    }.get(state)


def _said(error: psycopg.Error) -> str:
    """The server's own words, without those of libpq, which may quote the connection string."""
    return error.diag.message_primary or str(error).strip().partition("\n")[0] or "no reason given"
