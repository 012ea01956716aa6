"""A small table of orders for the tests of the verbs."""

from __future__ import annotations

import sqlite3
from datetime import date

import pyarrow as pa

from deltasql.client import Table
from deltasql.storage.locations import open_store

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32()), ("name", pa.string())])
MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)


def rows(*values: tuple[int, date | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], schema=SCHEMA)


def ids(data: pa.Table) -> list[int]:
    return sorted(data.column("id").to_pylist())


def objects(table: Table) -> set[str]:
    return {meta.key for meta in open_store(table.location).list()}


def dump(ledger: str) -> list[str]:
    with sqlite3.connect(ledger.removeprefix("sqlite:///")) as connection:
        return list(connection.iterdump())
