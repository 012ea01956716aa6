"""The history as Delta describes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from client_samples import MONDAY, rows
from deltasql.client import Lake, Table
from deltasql.ledger.memory import MemoryLedger
from deltasql.ops.history import HISTORY, describe_history
from deltasql.version import ENGINE_INFO
from ledger_samples import METADATA, PROTOCOL, found

pytestmark = pytest.mark.unit


def describe(table: Table, limit: int | None = None) -> list[dict[str, Any]]:
    described = describe_history(table._services.reader, table._entry, limit)
    assert described.schema == HISTORY
    return described.to_pylist()


def test_every_commit_has_a_row_newest_first(lake: Lake, table: Table) -> None:
    lake.mirror()
    table.delete("id = 1")
    delete, write, create = describe(table)
    assert [row["version"] for row in (delete, write, create)] == [2, 1, 0]
    assert [row["mirror"] for row in (delete, write, create)] == ["PENDING", "SUCCESS", "SUCCESS"]
    assert (write["operation"], write["readVersion"], write["isBlindAppend"]) == ("WRITE", 0, True)
    assert dict(write["operationParameters"]) == {"mode": "Append", "partitionBy": "[]"}
    assert dict(write["operationMetrics"])["numOutputRows"] == "4"
    assert (write["isolationLevel"], write["engineInfo"]) == ("Serializable", ENGINE_INFO)
    assert write["timestamp"] == datetime.fromtimestamp(table.snapshot(1).timestamp / 1000, UTC)
    assert dict(create["operationParameters"])["description"] is None
    assert create["readVersion"] is None
    for name in ("userId", "userName", "job", "notebook", "clusterId", "userMetadata"):
        assert write[name] is None


def test_the_newest_can_be_had_alone(table: Table) -> None:
    table.append(rows((5, MONDAY, "e")))
    assert [row["version"] for row in describe(table, 2)] == [2, 1]


def test_what_others_wrote_comes_out_typed_or_null() -> None:
    spark = {
        "timestamp": 5,
        "userId": "7",
        "userName": "ann",
        "operation": "MERGE",
        "operationParameters": {"ifExists": False, "n": 3, "list": ["a"], "text": "x", "none": None},
        "job": {"jobId": "1", "jobName": "nightly", "runId": 4},
        "notebook": {"notebookId": "9"},
        "clusterId": "c",
        "userMetadata": "why",
    }
    odd = {"timestamp": 6, "operation": 7, "operationParameters": "x", "isBlindAppend": "true", "readVersion": 1.5}
    ledger = MemoryLedger()
    commits = [found(0, METADATA, PROTOCOL, timestamp=5, info=spark), found(1, timestamp=6, info=odd)]
    entry = ledger.writer.adopt("t", "memory://lake/t", commits)
    second, first = describe_history(ledger.reader, entry).to_pylist()
    assert dict(first["operationParameters"]) == {
        "ifExists": "false",
        "n": "3",
        "list": '["a"]',
        "text": "x",
        "none": None,
    }
    assert (first["userId"], first["userName"], first["clusterId"], first["userMetadata"]) == ("7", "ann", "c", "why")
    assert first["job"]["jobName"] == "nightly"
    assert first["job"]["runId"] is None
    assert first["notebook"] == {"notebookId": "9"}
    nulls = {name: value for name, value in second.items() if name not in ("version", "timestamp", "mirror")}
    assert set(nulls.values()) == {None}
