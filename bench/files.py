"""The files that commits are about: no data, one action with statistics each."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake.transaction import AddAction

from deltasql.protocol.actions import AddFile

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("day", pa.date32())])
ROWS = 1_000


def add_file(writer: int, number: int) -> AddFile:
    return AddFile(
        path=f"part-{writer:05}-{number:08}.snappy.parquet",
        partition_values={},
        size=40_960,
        modification_time=1_767_225_600_000,
        data_change=True,
        stats=_statistics(number * ROWS),
    )


def add_action(writer: int, number: int) -> AddAction:
    """The same file in delta-rs's words."""
    file = add_file(writer, number)
    assert file.stats is not None
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={},
        modification_time=file.modification_time,
        data_change=file.data_change,
        stats=file.stats,
    )


def _statistics(first: int) -> str:
    last = first + ROWS - 1
    lowest = {"id": first, "amount": first * 0.5, "name": f"customer-{first:010}", "day": "2026-01-01"}
    highest = {"id": last, "amount": last * 0.5, "name": f"customer-{last:010}", "day": "2026-01-31"}
    nulls = dict.fromkeys(SCHEMA.names, 0)
    return json.dumps({"numRecords": ROWS, "minValues": lowest, "maxValues": highest, "nullCount": nulls})
