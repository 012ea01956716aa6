"""Table features: what a protocol says, and what deltasql may read and write under it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from deltasql.errors import UnsupportedError
from deltasql.protocol.actions import Metadata, TableProtocol
from deltasql.protocol.column_mapping import find_contradiction, is_mapped
from deltasql.protocol.evolution import TYPE_CHANGES, named_type, widens
from deltasql.protocol.properties import append_only, in_commit_timestamps
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
)

FEATURE_READER, FEATURE_WRITER = 3, 7


class Feature(msgspec.Struct, frozen=True):
    """A feature, whether readers must know it, and the versions that implied it before features had names."""

    name: str
    reader: bool = False
    legacy_reader: int | None = None
    legacy_writer: int | None = None


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", legacy_writer=2),
        Feature("invariants", legacy_writer=2),
        Feature("checkConstraints", legacy_writer=3),
        Feature("changeDataFeed", legacy_writer=4),
        Feature("generatedColumns", legacy_writer=4),
        Feature("columnMapping", reader=True, legacy_reader=2, legacy_writer=5),
        Feature("identityColumns", legacy_writer=6),
        Feature("deletionVectors", reader=True),
        Feature("timestampNtz", reader=True),
        Feature("v2Checkpoint", reader=True),
        Feature("vacuumProtocolCheck", reader=True),
        Feature("typeWidening", reader=True),
        Feature("typeWidening-preview", reader=True),
        Feature("variantType", reader=True),
        Feature("variantType-preview", reader=True),
        Feature("rowTracking"),
        Feature("domainMetadata"),
        Feature("clustering"),
        Feature("inCommitTimestamp"),
        Feature("allowColumnDefaults"),
        Feature("checkpointProtection"),
        Feature("icebergCompatV1"),
        Feature("icebergCompatV2"),
    )
}

# Features that are kept wherever rows are read and written.
_KEPT = frozenset({"columnMapping", "typeWidening", "typeWidening-preview"})
# Features whose rules `ops.constraints` keeps, or refuses by name, for every row that is written.
_ENFORCED = frozenset({"checkConstraints", "invariants", "generatedColumns", "allowColumnDefaults"})
# What may be switched on in a table whose rows deltasql writes. Those in the last lines are harmless until a table
# uses them, which `_used` looks for.
_WRITABLE = (
    _KEPT
    | {"appendOnly", "timestampNtz", "inCommitTimestamp", "domainMetadata", "vacuumProtocolCheck"}
    | {"invariants", "checkConstraints", "generatedColumns", "changeDataFeed", "identityColumns"}
    | {"deletionVectors", "allowColumnDefaults"}
)
_READABLE = _KEPT | {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"}
# What may be switched on in a table whose columns deltasql changes: no data file is written, and what depends on a
# column is looked for there.
_ALTERABLE = _WRITABLE | {"rowTracking", "clustering", "v2Checkpoint", "checkpointProtection"}


def writer_features(protocol: TableProtocol) -> frozenset[str]:
    """The features in force for writers, those implied by older versions among them."""
    if protocol.min_writer_version >= FEATURE_WRITER:
        return frozenset(protocol.writer_features or ())
    return frozenset(
        feature.name
        for feature in FEATURES.values()
        if feature.legacy_writer is not None and feature.legacy_writer <= protocol.min_writer_version
    )


def reader_features(protocol: TableProtocol) -> frozenset[str]:
    """The features in force for readers, those implied by older versions among them."""
    if protocol.min_reader_version >= FEATURE_READER:
        return frozenset(protocol.reader_features or ())
    return frozenset(
        feature.name
        for feature in FEATURES.values()
        if feature.legacy_reader is not None and feature.legacy_reader <= protocol.min_reader_version
    )


def protocol_for(schema: StructType, metadata: Metadata) -> TableProtocol:
    """The smallest protocol for a new table with this schema and these properties."""
    needed: set[str] = set()
    if in_commit_timestamps(metadata.configuration):
        needed.add("inCommitTimestamp")
    if append_only(metadata.configuration):
        needed.add("appendOnly")
    if uses_timestamp_ntz(schema):
        needed.add("timestampNtz")
    # Delta Spark counts NOT NULL among the invariants, and refuses to open a table that does not say so.
    if not all(field.nullable for field in _fields(schema)):
        needed.add("invariants")
    # Both are implied by the version that needs no names.
    if not needed - {"appendOnly", "invariants"}:
        return TableProtocol(min_reader_version=1, min_writer_version=2)
    for_readers = sorted(name for name in needed if FEATURES[name].reader)
    return TableProtocol(
        min_reader_version=FEATURE_READER if for_readers else 1,
        min_writer_version=FEATURE_WRITER,
        reader_features=tuple(for_readers) if for_readers else None,
        writer_features=tuple(sorted(needed)),
    )


def uses_timestamp_ntz(schema: StructType) -> bool:
    return any(kind == PrimitiveType("timestamp_ntz") for kind in _types(schema))


def supports(protocol: TableProtocol, name: str) -> bool:
    """Whether a feature is in force; for one that readers must know, for them too."""
    return name in writer_features(protocol) and (not FEATURES[name].reader or name in reader_features(protocol))


def with_features(protocol: TableProtocol, *names: str) -> TableProtocol:
    """The protocol with these features too, and all it had.

    As in Delta Spark the versions alone say so where they imply exactly these features; else these are named. Unlike
    there, one that is new to readers is always named to them: under reader version 2 some, delta-rs's dataset among
    them, go on without a look at column mapping and find renamed columns to be null.
    """
    if all(supports(protocol, name) for name in names):
        return protocol
    had = _listed(protocol)
    wanted = [*had, *sorted(set(names).difference(had))]
    known = reader_features(protocol)
    for_readers = [name for name in wanted if name in known or (name in FEATURES and FEATURES[name].reader)]
    reader = protocol.min_reader_version if known.issuperset(for_readers) else FEATURE_READER
    if reader < FEATURE_READER and all(name in FEATURES and FEATURES[name].legacy_writer for name in wanted):
        writer = max(FEATURES[name].legacy_writer or 1 for name in wanted)
        older = TableProtocol(min_reader_version=reader, min_writer_version=writer)
        if set(_listed(older)) == set(wanted):
            return older
    return TableProtocol(
        min_reader_version=reader,
        min_writer_version=FEATURE_WRITER,
        reader_features=tuple(for_readers) if reader == FEATURE_READER else None,
        writer_features=tuple(wanted),
    )


def _listed(protocol: TableProtocol) -> list[str]:
    """All features in force, in the order in which the protocol names them."""
    if protocol.writer_features is not None:
        return list(protocol.writer_features)
    # Versions promise a feature for readers only where both of them do.
    return sorted(name for name in writer_features(protocol) if supports(protocol, name))


def check_alterable(table: str, protocol: TableProtocol, metadata: Metadata) -> None:
    """Refuse to change columns where a feature may ask for more than deltasql knows."""
    if protocol.min_writer_version > FEATURE_WRITER:
        raise _refuse(table, f"needs writer version {protocol.min_writer_version}", "changing its columns")
    if blocked := sorted((writer_features(protocol) | reader_features(protocol)) - _ALTERABLE):
        raise _refuse(table, f"uses {', '.join(blocked)}", "changing its columns")
    _check_columns(table, protocol, metadata, "changing its columns")


def check_creatable(schema: StructType, metadata: Metadata) -> None:
    """Refuse a new table that would use a feature deltasql neither declares nor keeps."""
    used = _used(schema, metadata)
    if any(kind == PrimitiveType("variant") for kind in _types(schema)):
        used.add("variantType")
    if used:
        raise UnsupportedError(
            f"the schema uses {', '.join(sorted(used))}, which this release does not create tables with",
            hint="leave it out of the schema, or create the table with Delta Spark and adopt it",
            field="schema",
        )


def tracks_rows(protocol: TableProtocol, metadata: Metadata) -> bool:
    """Whether every file that joins the table needs row ids, which the rebase gives out."""
    suspended = metadata.configuration.get("delta.rowTrackingSuspended", "").lower() == "true"
    return "rowTracking" in writer_features(protocol) and not suspended


def keeps_row_ids(metadata: Metadata) -> bool:
    """Whether a row that moves to another file must keep its id, for which its file would have to hold the id."""
    return metadata.configuration.get("delta.enableRowTracking", "").lower() == "true"


def check_writable(table: str, protocol: TableProtocol, metadata: Metadata, *, fresh_row_ids: bool = False) -> None:
    """Refuse to write rows where a promise of the table would be broken.

    `fresh_row_ids` says that all rows written may get new ids: those of an append always, those of a rewrite
    unless the table `keeps_row_ids`.
    """
    if protocol.min_writer_version > FEATURE_WRITER:
        raise _refuse(table, f"needs writer version {protocol.min_writer_version}", "writing to it")
    check_committable(table, protocol, metadata)
    active = writer_features(protocol)
    used = active & (_used(parse_schema(metadata.schema_string), metadata) - _KEPT - _ENFORCED)
    writable = _WRITABLE | {"rowTracking"} if fresh_row_ids else _WRITABLE
    if blocked := sorted(used | (active - writable)):
        raise _refuse(table, f"uses {', '.join(blocked)}", "writing rows to it")
    _check_columns(table, protocol, metadata, "writing rows to it")


def check_committable(table: str, protocol: TableProtocol, metadata: Metadata) -> None:
    """Refuse even ready-made actions where the ledger itself could not keep a promise of the table."""
    if "rowTracking" in writer_features(protocol) and not tracks_rows(protocol, metadata):
        # No row gets an id while it is suspended, and the ledger would give out ids.
        raise _refuse(table, "has row tracking suspended", "committing to it")


def check_readable(table: str, protocol: TableProtocol, metadata: Metadata) -> None:
    """Refuse to read rows that would come out wrong. Files with deletion vectors are refused where they are met."""
    if protocol.min_reader_version > FEATURE_READER:
        raise _refuse(table, f"needs reader version {protocol.min_reader_version}", "reading it")
    if blocked := sorted(reader_features(protocol) - _READABLE):
        raise _refuse(table, f"uses {', '.join(blocked)}", "reading its rows")
    _check_columns(table, protocol, metadata, "reading its rows")


def _check_columns(table: str, protocol: TableProtocol, metadata: Metadata, what: str) -> None:
    """Refuse a table whose files could not be read by its schema: names that contradict, changes of type unheard of."""
    schema = parse_schema(metadata.schema_string)
    if is_mapped(metadata.configuration) and not supports(protocol, "columnMapping"):
        raise _refuse(table, "maps its columns without the feature columnMapping", what)
    if why := find_contradiction(schema, metadata.configuration):
        raise _refuse(table, why, what)
    for field in _fields(schema):
        for change in cast("list[Mapping[str, Any]]", field.metadata.get(TYPE_CHANGES, [])):
            old, new = change.get("fromType"), change.get("toType")
            if not widens(named_type(str(old)), named_type(str(new))):
                raise _refuse(table, f"had column {field.name!r} changed from {old} to {new}", what)


def _refuse(table: str, why: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"table {table!r} {why}, which this release does not support for {what}",
        hint="use Delta Spark for this table's rows; its log is still mirrored whole",
        field="table",
    )


def _used(schema: StructType, metadata: Metadata) -> set[str]:
    """Features that were switched on and are in use, among those that do nothing until used."""
    configuration = metadata.configuration
    used: set[str] = set()
    if any(name.startswith("delta.constraints.") for name in configuration):
        used.add("checkConstraints")
    if configuration.get("delta.enableChangeDataFeed", "").lower() == "true":
        used.add("changeDataFeed")
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        used.add("columnMapping")
    marks = {
        "delta.invariants": "invariants",
        "delta.generationExpression": "generatedColumns",
        "delta.identity.start": "identityColumns",
        "delta.columnMapping.id": "columnMapping",
        "delta.columnMapping.physicalName": "columnMapping",
        "CURRENT_DEFAULT": "allowColumnDefaults",
        "delta.typeChanges": "typeWidening",
    }
    for field in _fields(schema):
        used.update(feature for mark, feature in marks.items() if mark in field.metadata)
    return used


def _fields(kind: DataType) -> Iterator[StructField]:
    for inner in _types(kind):
        if isinstance(inner, StructType):
            yield from inner.fields


def _types(kind: DataType) -> Iterator[DataType]:
    yield kind
    inner: Iterable[DataType] = ()
    match kind:
        case StructType():
            inner = (field.type for field in kind.fields)
        case ArrayType():
            inner = (kind.element_type,)
        case MapType():
            inner = (kind.key_type, kind.value_type)
        case _:
            pass
    for each in inner:
        yield from _types(each)
