"""States, files and checkpoints for the tests of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.log.target import CheckpointState
from deltasql.protocol.actions import AddFile, Metadata, RemoveFile, TableProtocol
from deltasql.protocol.files import FILES, TOMBSTONES
from deltasql.protocol.replay import Replay

SCHEMA_STRING = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def file_row(path: str, **values: Any) -> dict[str, Any]:
    row = {"path": path, "partition_values": [], "size": 10, "modification_time": 1_700_000_000_000}
    return {**row, "data_change": True, **values}


def files(*rows: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=FILES)


def tombstones(*rows: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TOMBSTONES)


def state(version: int = 10, **changes: Any) -> CheckpointState:
    """A table of one file; `changes` replaces fields of the state."""
    plain = CheckpointState(
        version=version,
        protocol=TableProtocol(min_reader_version=1, min_writer_version=2),
        metadata=Metadata(id="0f0e", schema_string=SCHEMA_STRING, created_time=1_700_000_000_000),
        files=[files(file_row("part-0.parquet"))],
        num_files=1,
    )
    return msgspec.structs.replace(plain, **changes)


def with_property(name: str, value: str) -> Metadata:
    return Metadata(id="0f0e", schema_string=SCHEMA_STRING, configuration={name: value})


def state_of(replay: Replay, version: int) -> CheckpointState:
    """What the ledger would hand over for the commits replayed."""
    protocol, metadata = replay.require("replay")
    return CheckpointState(
        version=version,
        protocol=protocol,
        metadata=metadata,
        transactions=list(replay.transactions.values()),
        domains=list(replay.domains.values()),
        files=[files(*map(_row, replay.files.values()))],
        tombstones=[tombstones(*map(_row, replay.tombstones.values()))],
        num_files=len(replay.files),
        num_tombstones=len(replay.tombstones),
    )


def _row(action: AddFile | RemoveFile) -> dict[str, Any]:
    row = msgspec.structs.asdict(action)
    for name in ("partition_values", "tags"):
        row[name] = None if row[name] is None else list(row[name].items())
    vector = action.deletion_vector
    return {**row, "deletion_vector": None if vector is None else msgspec.structs.asdict(vector)}
