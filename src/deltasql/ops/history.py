"""The history of a table as Delta's DESCRIBE HISTORY gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from deltasql.ledger.contracts import HistoryEntry, TableEntry, TxnLogReader
from deltasql.protocol.jsonlog import dump_json

_TEXTS = pa.map_(pa.string(), pa.string())
_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")

# Delta's columns in Delta's order, and how far the mirror is with each version.
HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", _TEXTS),
        ("job", pa.struct([(name, pa.string()) for name in _JOB])),
        ("notebook", pa.struct([("notebookId", pa.string())])),
        ("clusterId", pa.string()),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXTS),
        ("userMetadata", pa.string()),
        ("engineInfo", pa.string()),
        ("mirror", pa.string()),
    ]
)


def describe_history(reader: TxnLogReader, entry: TableEntry, limit: int | None = None) -> pa.Table:
    """The commits, newest first. What a foreign writer spelled in a type of its own comes out as null."""
    rows = [_row(commit) for commit in reader.history(entry, limit)]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def _row(commit: HistoryEntry) -> dict[str, Any]:
    info = commit.commit_info
    return {
        "version": commit.version,
        "timestamp": commit.timestamp * 1000,
        **{name: _as(str, info.get(name)) for name in ("userId", "userName", "operation", "clusterId")},
        "operationParameters": _texts(info.get("operationParameters")),
        "job": _struct(info.get("job"), _JOB),
        "notebook": _struct(info.get("notebook"), ("notebookId",)),
        "readVersion": _as(int, info.get("readVersion")),
        "isBlindAppend": _as(bool, info.get("isBlindAppend")),
        "operationMetrics": _texts(info.get("operationMetrics")),
        **{name: _as(str, info.get(name)) for name in ("isolationLevel", "userMetadata", "engineInfo")},
        "mirror": commit.mirror,
    }


def _as(kind: type, value: object) -> Any:
    return value if type(value) is kind else None


def _texts(value: object) -> list[tuple[str, str | None]] | None:
    """A map of texts. Delta writes other values as they are in JSON, and shows them spelled out."""
    if not isinstance(value, Mapping):
        return None
    pairs = cast("Mapping[str, object]", value).items()
    return [(name, each if each is None or isinstance(each, str) else dump_json(each).decode()) for name, each in pairs]


def _struct(value: object, names: tuple[str, ...]) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, object]", value)
    return {name: _as(str, fields.get(name)) for name in names}
