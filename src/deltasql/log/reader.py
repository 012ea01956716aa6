"""Reading a log: commits as bytes, checkpoints of every kind as actions."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.errors import MalformedLogError, ObjectNotFoundError, UnsupportedError, VersionNotFoundError
from deltasql.log.segment import CheckpointFiles, Segment
from deltasql.protocol.actions import Action, Metadata, TableProtocol, UnknownAction
from deltasql.protocol.jsonlog import decode_action, decode_commit, dump_json
from deltasql.protocol.paths import LOG_DIR, SIDECAR_DIR
from deltasql.storage.base import ObjectStore

# Commits asked for at once, so that a long log does not pay for every answer's way one by one.
_READ_AHEAD = 16

_PARSED = re.compile(r"[^.]+\.[^.]+_parsed(\.|$)")


def read_commits(store: ObjectStore, segment: Segment, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The commit files from `start` to `end`, both included, in order, as they are."""
    versions = range(start, end + 1)
    missing = next((version for version in versions if version not in segment.commits), None)
    if missing is not None:
        raise VersionNotFoundError(
            f"{segment.url} has no commit file for version {missing}",
            hint=f"its readable versions are {segment.first} to {segment.head}",
            field="version",
        )
    return _read_ahead(store, segment, versions)


def _read_ahead(store: ObjectStore, segment: Segment, versions: range) -> Iterator[tuple[int, bytes]]:
    with ThreadPoolExecutor(_READ_AHEAD) as pool:
        for at in range(0, len(versions), _READ_AHEAD):
            group = versions[at : at + _READ_AHEAD]
            keys = [segment.commits[version].key for version in group]
            yield from zip(group, pool.map(lambda key: _get(store, key), keys), strict=True)


def read_checkpoint(store: ObjectStore, checkpoint: CheckpointFiles) -> list[Action]:
    """The actions of a checkpoint: classic, in parts, or V2 with its sidecars.

    A checkpoint without exactly one protocol and one metaData is refused: it was cut, or is none.
    """
    found = [action for file in checkpoint.files for action in _read_file(store, file.key)]
    actions: list[Action] = []
    manifests: list[Any] = []
    for action in found:
        match action:
            case UnknownAction(name="checkpointMetadata", body=body):
                manifests.append(body)
            case UnknownAction(name="sidecar", body=body):
                actions.extend(_read_file(store, _sidecar_key(body, checkpoint)))
            case _:
                actions.append(action)
    if checkpoint.kind == "v2" or manifests:
        versions = [body.get("version") if isinstance(body, dict) else None for body in manifests]
        if versions != [checkpoint.version]:
            raise _malformed(checkpoint.files[0].key, f"its checkpointMetadata names the versions {versions}")
    for kind, name in ((TableProtocol, "protocol"), (Metadata, "metaData")):
        count = sum(isinstance(action, kind) for action in actions)
        if count != 1:
            raise _malformed(checkpoint.files[0].key, f"it holds {count} {name} actions")
    return actions


def _read_file(store: ObjectStore, key: str) -> Iterable[Action]:
    data = _get(store, key)
    return decode_commit(data, source=key) if key.endswith(".json") else _read_parquet(data, key)


def _get(store: ObjectStore, key: str) -> bytes:
    try:
        return store.get(key)
    except ObjectNotFoundError as error:
        raise MalformedLogError(
            f"{store.url}: {key} was listed or named, and is gone",
            hint="a clean-up may have run meanwhile: read the log again",
            field=key,
        ) from error


def _sidecar_key(body: Any, checkpoint: CheckpointFiles) -> str:
    """Sidecars lie in one folder, whatever folder their paths may name."""
    path = body.get("path") if isinstance(body, dict) else None
    name = unquote(path).rpartition("/")[2] if isinstance(path, str) else ""
    if not name:
        raise _malformed(checkpoint.files[0].key, f"a sidecar has the path {path!r}")
    return f"{LOG_DIR}/{SIDECAR_DIR}/{name}"


# -- Parquet --------------------------------------------------------------------------------------------------------


def _read_parquet(data: bytes, key: str) -> Iterator[Action]:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        for batch in file.iter_batches(columns=_leaves(file)):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                convert = _converter(column.type)
                for value in column.drop_null().to_pylist():
                    if body := convert(value):
                        yield decode_action(dump_json({name: body}), source=key)
    except (pa.ArrowException, OSError) as error:
        raise _malformed(key, f"it cannot be read as Parquet: {error}") from error


def _leaves(file: pq.ParquetFile) -> list[str]:
    """Every column but the parsed copies of partition values and statistics, whose text says the same."""
    paths: list[str] = [file.schema.column(index).path for index in range(len(file.schema))]
    return [path for path in paths if not _PARSED.match(path)]


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """How a value of this type becomes what JSON can say. Absent fields of structs are left out."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _converter(field.type)) for field in kind]
        return lambda value: {name: convert(item) for name, convert in fields if (item := value[name]) is not None}
    if pa.types.is_map(kind):
        convert_item = _nullable(_converter(kind.item_type))
        return lambda pairs: {key: convert_item(item) for key, item in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        convert_value = _nullable(_converter(kind.value_type))
        return lambda values: [convert_value(value) for value in values]
    return _scalar


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    raise UnsupportedError(
        f"a checkpoint holds a value of type {type(value).__name__}, which no action of this release has",
        hint="use a release of deltasql that knows the feature of the table that brought it",
    )


def _malformed(key: str, message: str) -> MalformedLogError:
    return MalformedLogError(
        f"{key}: {message}", hint="move it away, so that an older checkpoint or the commits are read", field=key
    )
