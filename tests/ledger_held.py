"""Holds a ledger open for a while: to open a DuckDB file for each question would be most of a test's time."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

from ledger_backends import LedgerUnderTest


def held_open(ledger: LedgerUnderTest) -> AbstractContextManager[Any]:
    """While this one connection is open, all others of this process share what DuckDB holds of the file."""
    database = getattr(ledger.reader, "_ledger", None)
    return nullcontext() if database is None else closing(database.dialect.connect())
