"""Verbs that look into a table: its files, and what they come to by partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltasql.cli.options import MAX_NUMBER, AsJson, LedgerUrl, TableName, open_lake
from deltasql.cli.output import print_json, print_table

if TYPE_CHECKING:
    from deltasql.ops.snapshot import Snapshot
    from deltasql.protocol.actions import AddFile

Version = Annotated[
    int | None, typer.Option("--version", metavar="N", min=0, max=MAX_NUMBER, help="As of this version.")
]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="T", help="As of this instant, such as 2026-01-31T12:00:00Z.")
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="P", help="Only files that may hold such rows: \"day = '2026-01-31'\""),
]


def files(
    name: TableName,
    filter: Filter = None,
    version: Version = None,
    timestamp: Timestamp = None,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """List a table's data files."""
    from deltasql.ops.snapshot import adds_from

    with open_lake(ledger) as lake:
        snapshot = lake.table(name).snapshot(version, timestamp)
        found: list[dict[str, Any]] = [
            {
                "path": add.path,
                "size": add.size,
                "rows": snapshot.facts(add).num_records,
                "partition_values": add.partition_values,
                "modification_time": add.modification_time,
                "deletion_vector": add.dv_id or None,
                "stats": add.stats,
            }
            for add in adds_from(snapshot.files(filter))
        ]
    if as_json:
        print_json(
            {
                "table": name,
                "version": snapshot.version,
                "bytes": sum(file["size"] for file in found),
                "rows": total(file["rows"] for file in found),
                "files": found,
            }
        )
    else:
        print_table(["path", "bytes", "rows", "partition"], [list(file.values())[:4] for file in found])


def partitions(
    name: TableName,
    filter: Filter = None,
    version: Version = None,
    timestamp: Timestamp = None,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """List a table's partitions with their files and rows."""
    from deltasql.ops.snapshot import adds_from

    with open_lake(ledger) as lake:
        snapshot = lake.table(name).snapshot(version, timestamp)
        found = _by_partition(snapshot, adds_from(snapshot.files(filter)))
    columns = snapshot.metadata.partition_columns
    if as_json:
        print_json({"table": name, "version": snapshot.version, "partition_columns": columns, "partitions": found})
    else:
        rows = [(*each["values"].values(), each["files"], each["bytes"], each["rows"]) for each in found]
        print_table([*columns, "files", "bytes", "rows"], rows)


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None where a part of it is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _by_partition(snapshot: Snapshot, adds: Iterable[AddFile]) -> list[dict[str, Any]]:
    """Each distinct tuple of partition values, nulls first, and what its files come to."""
    columns = snapshot.metadata.partition_columns
    # In the log an empty text means null as well.
    groups: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in adds:
        groups.setdefault(tuple(add.partition_values.get(column) or None for column in columns), []).append(add)
    ordered = sorted(groups.items(), key=lambda group: [(value is not None, value or "") for value in group[0]])
    return [
        {
            "values": dict(zip(columns, values, strict=True)),
            "files": len(members),
            "bytes": sum(add.size for add in members),
            "rows": total(snapshot.facts(add).num_records for add in members),
        }
        for values, members in ordered
    ]
