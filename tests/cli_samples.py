"""What the tests of the command line work on: a schema, some rows, and a look at everything a lake holds."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Deltasql = Callable[..., Answer]


def write_orders(path: Path) -> Path:
    """Three rows in two partitions that fit `SCHEMA`."""
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "a", "b"]}), path)
    return path


def files_below(folder: Path) -> dict[str, str]:
    """Every file with a hash of its content; the ledger's own files are looked at by `ledger_rows`."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("lake.db")
    }


def ledger_rows(database: Path) -> dict[str, int]:
    """How many rows each of the ledger's tables has."""
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl\\_%' ESCAPE '\\'"
        )
        return {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in names.fetchall()
        }
