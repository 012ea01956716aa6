"""Tables whose columns change, for the tests of `ops/alter.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.client import Table
from deltasql.ledger.contracts import CommitDraft
from deltasql.ops.alter import evolved
from deltasql.ops.files import write_files
from deltasql.ops.write import append_of
from deltasql.protocol.arrow import conform
from deltasql.protocol.schema import parse_schema


def alter(table: Table, draft: Callable[..., CommitDraft | None], *args: Any, **options: Any) -> int:
    """Make the commit that `draft` describes on the table's newest version."""
    made = draft(table._entry, table.snapshot(), *args, **options)
    assert made is not None
    return table._services.commit([made])[0].version


def alter_looking(table: Table, draft: Callable[..., CommitDraft], *args: Any, **options: Any) -> int:
    """The same for what looks into the ledger too."""
    made = draft(table._services, table._entry, table.snapshot(), *args, **options)
    return table._services.commit([made])[0].version


def draft_merging(table: Table, data: pa.Table) -> CommitDraft:
    """An append that brings its own columns along, in one commit."""
    snapshot = table.snapshot()
    metadata = evolved(table._entry, snapshot, data.schema)
    rows = conform(data, parse_schema(metadata.schema_string), table=table.name, fill=True)
    adds = write_files(table._services.store_at(table.location), metadata, rows)
    draft = append_of(table._entry, snapshot.version, adds, rows.num_rows)
    changes = [] if metadata == snapshot.metadata else [metadata]
    return msgspec.structs.replace(draft, actions=[*changes, *draft.actions])


def append_merging(table: Table, data: pa.Table) -> int:
    return table._services.commit([draft_merging(table, data)])[0].version


def rows_of(data: pa.Table, key: str) -> list[dict[str, Any]]:
    """The rows as plain values, in the order of a column."""
    return data.sort_by(key).to_pylist()
