"""Commit files: actions to canonical bytes and back.

Canonical means: the bytes Delta Spark would write for the same actions. The same actions give the same bytes on
every machine, process and retry, because publishing again must be recognisable as the same commit.
`ENCODER_VERSION` is kept with every commit in the ledger; a release that encodes differently raises it and keeps
the older encoder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import orjson

from deltasql.errors import InvalidInputError, MalformedLogError
from deltasql.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)

ENCODER_VERSION = 1

_Json = dict[str, Any]

# Escaped backslashes are matched too, so that the second one is never taken for the start of an escape.
_ESCAPE = re.compile(rb"\\\\|\\u00[01][0-9a-f]")


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The canonical bytes of a commit file: one line an action, each ended by a newline."""
    return b"".join([encode_action(action) for action in actions])


def encode_action(action: Action) -> bytes:
    """The canonical line of one action, newline included."""
    name, to_json = _ENCODERS[type(action)]
    return dump_line({name or cast("UnknownAction", action).name: to_json(action)})


def dump_json(value: object) -> bytes:
    """Compact JSON, spelled as Delta Spark spells it."""
    try:
        text = orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidInputError(
            f"a value cannot be written as JSON: {error}",
            hint="use text without lone surrogates and integers of at most 64 bits",
            field="action",
        ) from error
    # orjson writes control characters in lower-case hexadecimal, Delta Spark in upper case.
    return _ESCAPE.sub(_upper, text) if b"\\u00" in text else text


def dump_line(value: object) -> bytes:
    return dump_json(value) + b"\n"


def _upper(match: re.Match[bytes]) -> bytes:
    escape = match.group()
    return b"\\u" + escape[2:].upper() if len(escape) > 2 else escape


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode_commit(data: bytes, *, source: str = "commit") -> list[Action]:
    """The actions of a commit file, in order. `source` names the file in errors.

    Accepts what other writers produce: no newline at the end, blank lines, spaces, explicit nulls.
    """
    actions: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line and not line.isspace():
            actions.append(decode_action(line, source=f"{source}, line {number}"))
    return actions


def decode_action(line: bytes, *, source: str = "action") -> Action:
    """The action on one line of a commit file."""
    body = load_object(line, source=source)
    # Some writers spell out the other action types as nulls beside the one that is meant.
    present = [(name, value) for name, value in body.items() if value is not None]
    if len(present) != 1:
        raise _malformed(source, f"one action a line is expected, found {[name for name, _ in present]}")
    name, value = present[0]
    decoder = _DECODERS.get(name)
    if decoder is None:
        return UnknownAction(name, value)
    if not isinstance(value, dict):
        raise _malformed(source, f"{name} must be an object, found {type(value).__name__}")
    return decoder(_Fields(cast("_Json", value), f"{source}: {name}"))


def load_object(text: bytes | str, *, source: str) -> _Json:
    """A JSON object, or a typed error. Duplicate keys are refused: readers disagree on which one counts."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _malformed(source, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _malformed(source, f"a JSON object is expected, found {type(value).__name__}")
    # A line that dumps to its own length cannot have lost a key; only the others are worth the slow look.
    try:
        if len(orjson.dumps(value)) != len(text):
            json.loads(text, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError, TypeError) as error:
        raise _malformed(source, str(error)) from error
    return cast("_Json", value)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> _Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {repeated!r} stands twice in one object")
    return result


def _malformed(source: str, message: str) -> MalformedLogError:
    return MalformedLogError(
        f"{source}: {message}",
        hint="restore the file from a backup or from the writer that made it; nothing was taken in",
        field=source,
    )


# -- encoding: one function a type; fields in the order Delta Spark writes them, absent ones left out ---------------


def _put(target: _Json, **fields: Any) -> None:
    for name, value in fields.items():
        if value is not None:
            target[name] = value


def _deletion_vector(vector: DeletionVector | None) -> _Json | None:
    if vector is None:
        return None
    body: _Json = {"storageType": vector.storage_type, "pathOrInlineDv": vector.path_or_inline_dv}
    _put(body, offset=vector.offset)
    body["sizeInBytes"] = vector.size_in_bytes
    body["cardinality"] = vector.cardinality
    body.update(vector.extra)
    return body


def _add(action: AddFile) -> _Json:
    body: _Json = {
        "path": action.path,
        "partitionValues": action.partition_values,
        "size": action.size,
        "modificationTime": action.modification_time,
        "dataChange": action.data_change,
    }
    if action.stats is not None:
        body["stats"] = action.stats
    _put(
        body,
        tags=action.tags,
        deletionVector=_deletion_vector(action.deletion_vector),
        baseRowId=action.base_row_id,
        defaultRowCommitVersion=action.default_row_commit_version,
        clusteringProvider=action.clustering_provider,
    )
    body.update(action.extra)
    return body


def _remove(action: RemoveFile) -> _Json:
    body: _Json = {"path": action.path}
    _put(body, deletionTimestamp=action.deletion_timestamp)
    body["dataChange"] = action.data_change
    _put(
        body,
        extendedFileMetadata=action.extended_file_metadata,
        partitionValues=action.partition_values,
        size=action.size,
        tags=action.tags,
        deletionVector=_deletion_vector(action.deletion_vector),
        baseRowId=action.base_row_id,
        defaultRowCommitVersion=action.default_row_commit_version,
        stats=action.stats,
    )
    body.update(action.extra)
    return body


def _metadata(action: Metadata) -> _Json:
    body: _Json = {"id": action.id}
    _put(body, name=action.name, description=action.description)
    body["format"] = {
        "provider": action.format.provider,
        "options": action.format.options,
        **action.format.extra,
    }
    body["schemaString"] = action.schema_string
    body["partitionColumns"] = action.partition_columns
    body["configuration"] = action.configuration
    _put(body, createdTime=action.created_time)
    body.update(action.extra)
    return body


def _protocol(action: TableProtocol) -> _Json:
    body: _Json = {"minReaderVersion": action.min_reader_version, "minWriterVersion": action.min_writer_version}
    _put(body, readerFeatures=action.reader_features, writerFeatures=action.writer_features)
    body.update(action.extra)
    return body


def _txn(action: SetTransaction) -> _Json:
    body: _Json = {"appId": action.app_id, "version": action.version}
    _put(body, lastUpdated=action.last_updated)
    body.update(action.extra)
    return body


def _domain_metadata(action: DomainMetadata) -> _Json:
    return {
        "domain": action.domain,
        "configuration": action.configuration,
        "removed": action.removed,
        **action.extra,
    }


def _cdc(action: AddCdcFile) -> _Json:
    body: _Json = {
        "path": action.path,
        "partitionValues": action.partition_values,
        "size": action.size,
        "dataChange": action.data_change,
    }
    _put(body, tags=action.tags)
    body.update(action.extra)
    return body


def _commit_info(action: CommitInfo) -> Any:
    return action.fields


def _unknown(action: UnknownAction) -> Any:
    return action.body


_ENCODERS: dict[type, tuple[str | None, Callable[[Any], Any]]] = {
    AddFile: ("add", _add),
    RemoveFile: ("remove", _remove),
    Metadata: ("metaData", _metadata),
    TableProtocol: ("protocol", _protocol),
    SetTransaction: ("txn", _txn),
    DomainMetadata: ("domainMetadata", _domain_metadata),
    AddCdcFile: ("cdc", _cdc),
    CommitInfo: ("commitInfo", _commit_info),
    UnknownAction: (None, _unknown),
}


# -- decoding -------------------------------------------------------------------------------------------------------


class _Fields:
    """Takes known fields out of an object one by one, checking their types; what is left over is `rest`."""

    def __init__(self, body: _Json, source: str) -> None:
        self.rest = body
        self.source = source

    def take(self, name: str, kind: type | tuple[type, ...]) -> Any:
        value = self.rest.pop(name, None)
        if value is None:
            raise _malformed(self.source, f"{name} is missing")
        # bool is a subclass of int: true is not a size.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(name, value)
        return value

    def maybe(self, name: str, kind: type | tuple[type, ...]) -> Any:
        value = self.rest.pop(name, None)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise self._wrong(name, value)
        return value

    def text_map(self, name: str, *, nulls: bool = True) -> Any:
        value = self.maybe(name, dict)
        if value is not None:
            for key, item in value.items():
                if not (isinstance(item, str) or (nulls and item is None)):
                    raise self._wrong(f"{name}.{key}", item)
        return value

    def text_list(self, name: str) -> tuple[str, ...] | None:
        value = self.maybe(name, list)
        if value is None:
            return None
        if not all(isinstance(item, str) for item in value):
            raise self._wrong(name, value)
        return tuple(value)

    def nested(self, name: str) -> _Fields | None:
        value = self.maybe(name, dict)
        return None if value is None else _Fields(value, f"{self.source}.{name}")

    def extra(self) -> _Json:
        """Unknown fields, explicit nulls dropped: an absent field and a null one mean the same."""
        return {name: value for name, value in self.rest.items() if value is not None} if self.rest else {}

    def _wrong(self, name: str, value: object) -> MalformedLogError:
        return _malformed(self.source, f"{name} has the wrong type {type(value).__name__}")


def _read_deletion_vector(fields: _Fields) -> DeletionVector | None:
    vector = fields.nested("deletionVector")
    if vector is None:
        return None
    return DeletionVector(
        storage_type=vector.take("storageType", str),
        path_or_inline_dv=vector.take("pathOrInlineDv", str),
        offset=vector.maybe("offset", int),
        size_in_bytes=vector.take("sizeInBytes", int),
        cardinality=vector.take("cardinality", int),
        extra=vector.extra(),
    )


def _read_add(fields: _Fields) -> AddFile:
    return AddFile(
        path=fields.take("path", str),
        partition_values=fields.text_map("partitionValues") or {},
        size=fields.take("size", int),
        modification_time=fields.take("modificationTime", int),
        data_change=fields.take("dataChange", bool),
        stats=fields.maybe("stats", str),
        tags=fields.text_map("tags"),
        deletion_vector=_read_deletion_vector(fields),
        base_row_id=fields.maybe("baseRowId", int),
        default_row_commit_version=fields.maybe("defaultRowCommitVersion", int),
        clustering_provider=fields.maybe("clusteringProvider", str),
        extra=fields.extra(),
    )


def _read_remove(fields: _Fields) -> RemoveFile:
    return RemoveFile(
        path=fields.take("path", str),
        deletion_timestamp=fields.maybe("deletionTimestamp", int),
        data_change=fields.take("dataChange", bool),
        extended_file_metadata=fields.maybe("extendedFileMetadata", bool),
        partition_values=fields.text_map("partitionValues"),
        size=fields.maybe("size", int),
        tags=fields.text_map("tags"),
        deletion_vector=_read_deletion_vector(fields),
        base_row_id=fields.maybe("baseRowId", int),
        default_row_commit_version=fields.maybe("defaultRowCommitVersion", int),
        stats=fields.maybe("stats", str),
        extra=fields.extra(),
    )


def _read_metadata(fields: _Fields) -> Metadata:
    layout = fields.nested("format")
    return Metadata(
        id=fields.take("id", str),
        name=fields.maybe("name", str),
        description=fields.maybe("description", str),
        format=Format()
        if layout is None
        else Format(
            provider=layout.take("provider", str),
            options=layout.text_map("options", nulls=False) or {},
            extra=layout.extra(),
        ),
        schema_string=fields.take("schemaString", str),
        partition_columns=fields.text_list("partitionColumns") or (),
        configuration=fields.text_map("configuration", nulls=False) or {},
        created_time=fields.maybe("createdTime", int),
        extra=fields.extra(),
    )


def _read_protocol(fields: _Fields) -> TableProtocol:
    return TableProtocol(
        min_reader_version=fields.take("minReaderVersion", int),
        min_writer_version=fields.take("minWriterVersion", int),
        reader_features=fields.text_list("readerFeatures"),
        writer_features=fields.text_list("writerFeatures"),
        extra=fields.extra(),
    )


def _read_txn(fields: _Fields) -> SetTransaction:
    return SetTransaction(
        app_id=fields.take("appId", str),
        version=fields.take("version", int),
        last_updated=fields.maybe("lastUpdated", int),
        extra=fields.extra(),
    )


def _read_domain_metadata(fields: _Fields) -> DomainMetadata:
    return DomainMetadata(
        domain=fields.take("domain", str),
        configuration=fields.take("configuration", str),
        removed=fields.take("removed", bool),
        extra=fields.extra(),
    )


def _read_cdc(fields: _Fields) -> AddCdcFile:
    return AddCdcFile(
        path=fields.take("path", str),
        partition_values=fields.text_map("partitionValues") or {},
        size=fields.take("size", int),
        data_change=fields.take("dataChange", bool),
        tags=fields.text_map("tags"),
        extra=fields.extra(),
    )


def _read_commit_info(fields: _Fields) -> CommitInfo:
    return CommitInfo(fields.rest)


_DECODERS: dict[str, Callable[[_Fields], Action]] = {
    "add": _read_add,
    "remove": _read_remove,
    "metaData": _read_metadata,
    "protocol": _read_protocol,
    "txn": _read_txn,
    "domainMetadata": _read_domain_metadata,
    "cdc": _read_cdc,
    "commitInfo": _read_commit_info,
}
