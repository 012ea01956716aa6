"""Tables, files and commits for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit, CommitDraft
from deltasql.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.jsonlog import encode_commit
from deltasql.protocol.properties import IN_COMMIT_TIMESTAMPS
from log_samples import SCHEMA_STRING

PROTOCOL = TableProtocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
METADATA = Metadata(id="0f0e", schema_string=SCHEMA_STRING, configuration={IN_COMMIT_TIMESTAMPS: "true"})


def metadata(**configuration: str) -> Metadata:
    """The table's description with other properties."""
    return msgspec.structs.replace(METADATA, configuration=configuration)


def vector(name: str) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=name, offset=1, size_in_bytes=36, cardinality=2)


def add(path: str, vector_name: str | None = None, **values: Any) -> AddFile:
    dv = None if vector_name is None else vector(vector_name)
    fields: dict[str, Any] = {"size": 10, "modification_time": 1, "data_change": True, **values}
    return AddFile(path=path, deletion_vector=dv, **fields)


def remove(path: str, vector_name: str | None = None, **values: Any) -> RemoveFile:
    dv = None if vector_name is None else vector(vector_name)
    fields: dict[str, Any] = {"deletion_timestamp": 5, "data_change": True, **values}
    return RemoveFile(path=path, deletion_vector=dv, **fields)


def txn(app_id: str, version: int = 1, **values: Any) -> SetTransaction:
    return SetTransaction(app_id=app_id, version=version, **values)


def domain(name: str, configuration: str = "{}", *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=configuration, removed=removed)


def draft(table: str, *actions: Action, **values: Any) -> CommitDraft:
    return CommitDraft(table=table, actions=actions, **{"operation": "WRITE", **values})


def creation(table: str, *actions: Action, **values: Any) -> CommitDraft:
    """A draft that creates a table; its description may be given among the actions."""
    given = {type(action) for action in actions}
    standard = [action for action in (METADATA, PROTOCOL) if type(action) not in given]
    return draft(table, *standard, *actions, **{"operation": "CREATE TABLE", "create_at": location(table), **values})


def location(table: str) -> str:
    return f"memory://lake/{table}"


def found(version: int, *actions: Action, timestamp: int, info: dict[str, Any] | None = None) -> AdoptedCommit:
    """A commit as it may be found in a log, spelled canonically."""
    whole = [CommitInfo({"timestamp": timestamp, "operation": "FOUND"} if info is None else info), *actions]
    return AdoptedCommit(version=version, data=encode_commit(whole), actions=whole, timestamp=timestamp)


def checkpoint(version: int, *actions: Action, timestamp: int, data: bytes | None = None) -> AdoptedBase:
    return AdoptedBase(version=version, actions=[PROTOCOL, METADATA, *actions], timestamp=timestamp, data=data)


def paths(batches: Iterable[pa.Table]) -> list[str]:
    """The paths in a stream of file rows."""
    return [path for batch in batches for path in batch.column("path").to_pylist()]
