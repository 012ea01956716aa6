"""Actions as JSON objects, and back: the spelling of each type, field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltasql.errors import MalformedLogError
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

Json = dict[str, Any]


def malformed(source: str, message: str) -> MalformedLogError:
    return MalformedLogError(
        f"{source}: {message}",
        hint="restore the file from a backup or from the writer that made it; nothing was taken in",
        field=source,
    )


# -- encoding: one function a type; fields in the order Delta Spark writes them, absent ones left out ---------------


def _put(target: Json, **fields: Any) -> None:
    for name, value in fields.items():
        if value is not None:
            target[name] = value


def _deletion_vector(vector: DeletionVector | None) -> Json | None:
    if vector is None:
        return None
    body: Json = {"storageType": vector.storage_type, "pathOrInlineDv": vector.path_or_inline_dv}
    _put(body, offset=vector.offset)
    body["sizeInBytes"] = vector.size_in_bytes
    body["cardinality"] = vector.cardinality
    body.update(vector.extra)
    return body


def _add(action: AddFile) -> Json:
    body: Json = {
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


def _remove(action: RemoveFile) -> Json:
    body: Json = {"path": action.path}
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


def _metadata(action: Metadata) -> Json:
    body: Json = {"id": action.id}
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


def _protocol(action: TableProtocol) -> Json:
    body: Json = {"minReaderVersion": action.min_reader_version, "minWriterVersion": action.min_writer_version}
    _put(body, readerFeatures=action.reader_features, writerFeatures=action.writer_features)
    body.update(action.extra)
    return body


def _txn(action: SetTransaction) -> Json:
    body: Json = {"appId": action.app_id, "version": action.version}
    _put(body, lastUpdated=action.last_updated)
    body.update(action.extra)
    return body


def _domain_metadata(action: DomainMetadata) -> Json:
    return {
        "domain": action.domain,
        "configuration": action.configuration,
        "removed": action.removed,
        **action.extra,
    }


def _cdc(action: AddCdcFile) -> Json:
    body: Json = {
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


ENCODERS: dict[type, tuple[str | None, Callable[[Any], Any]]] = {
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


class Fields:
    """Takes known fields out of an object one by one, checking their types; what is left over is `rest`."""

    def __init__(self, body: Json, source: str) -> None:
        self.rest = body
        self.source = source

    def take(self, name: str, kind: type | tuple[type, ...]) -> Any:
        value = self.rest.pop(name, None)
        if value is None:
            raise malformed(self.source, f"{name} is missing")
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

    def nested(self, name: str) -> Fields | None:
        value = self.maybe(name, dict)
        return None if value is None else Fields(value, f"{self.source}.{name}")

    def extra(self) -> Json:
        """Unknown fields, explicit nulls dropped: an absent field and a null one mean the same."""
        return {name: value for name, value in self.rest.items() if value is not None} if self.rest else {}

    def _wrong(self, name: str, value: object) -> MalformedLogError:
        return malformed(self.source, f"{name} has the wrong type {type(value).__name__}")


def _read_deletion_vector(fields: Fields) -> DeletionVector | None:
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


def _read_add(fields: Fields) -> AddFile:
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


def _read_remove(fields: Fields) -> RemoveFile:
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


def _read_metadata(fields: Fields) -> Metadata:
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


def _read_protocol(fields: Fields) -> TableProtocol:
    return TableProtocol(
        min_reader_version=fields.take("minReaderVersion", int),
        min_writer_version=fields.take("minWriterVersion", int),
        reader_features=fields.text_list("readerFeatures"),
        writer_features=fields.text_list("writerFeatures"),
        extra=fields.extra(),
    )


def _read_txn(fields: Fields) -> SetTransaction:
    return SetTransaction(
        app_id=fields.take("appId", str),
        version=fields.take("version", int),
        last_updated=fields.maybe("lastUpdated", int),
        extra=fields.extra(),
    )


def _read_domain_metadata(fields: Fields) -> DomainMetadata:
    return DomainMetadata(
        domain=fields.take("domain", str),
        configuration=fields.take("configuration", str),
        removed=fields.take("removed", bool),
        extra=fields.extra(),
    )


def _read_cdc(fields: Fields) -> AddCdcFile:
    return AddCdcFile(
        path=fields.take("path", str),
        partition_values=fields.text_map("partitionValues") or {},
        size=fields.take("size", int),
        data_change=fields.take("dataChange", bool),
        tags=fields.text_map("tags"),
        extra=fields.extra(),
    )


def _read_commit_info(fields: Fields) -> CommitInfo:
    return CommitInfo(fields.rest)


DECODERS: dict[str, Callable[[Fields], Action]] = {
    "add": _read_add,
    "remove": _read_remove,
    "metaData": _read_metadata,
    "protocol": _read_protocol,
    "txn": _read_txn,
    "domainMetadata": _read_domain_metadata,
    "cdc": _read_cdc,
    "commitInfo": _read_commit_info,
}
