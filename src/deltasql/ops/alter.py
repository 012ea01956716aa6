"""Changing a table's columns: each change is one commit of metadata, and of a protocol where a feature joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from deltasql.errors import InvalidInputError, SchemaError, UnsupportedError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.dependents import clustering_columns, is_field, is_within, refuse_dependents
from deltasql.ops.services import Services
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Action, Metadata
from deltasql.protocol.alteration import (
    add_column,
    change_column,
    drop_column,
    move_column,
    rename_column,
    widen_column,
)
from deltasql.protocol.arrow import schema_from_arrow, schema_to_arrow
from deltasql.protocol.column_mapping import (
    MODE,
    all_fields,
    assign_missing,
    is_mapped,
    physical_schema,
    switch_on,
)
from deltasql.protocol.column_paths import physical_path
from deltasql.protocol.columns import Path, column_error, field_at, parse_path, path_text, resolve
from deltasql.protocol.evolution import evolve, named_type, record_type_changes, type_text, widened_paths
from deltasql.protocol.features import check_alterable, supports, uses_timestamp_ntz, with_features
from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.properties import STATS_COLUMNS
from deltasql.protocol.schema import (
    DataType,
    StructField,
    StructType,
    check_schema,
    parse_schema,
    schema_string,
)

TYPE_WIDENING = "delta.enableTypeWidening"

# What switches a feature on, as Delta's property says it.
_ENABLED_BY = {
    "columnMapping": {MODE: "name"},
    "typeWidening": {TYPE_WIDENING: "true"},
    "timestampNtz": {"delta.feature.timestampNtz": "supported"},
}


def draft_add_columns(
    entry: TableEntry,
    snapshot: Snapshot,
    columns: pa.Schema | StructType | str,
    *,
    within: str | Sequence[str] | None = None,
    first: bool = False,
    after: str | None = None,
    comments: Mapping[str, str] | None = None,
) -> CommitDraft:
    """Nullable columns more, at the end or where they are wanted; with `within` inside that struct."""
    _check(entry, snapshot)
    parent = () if within is None else resolve(snapshot.structure, parse_path(within))
    schema = snapshot.structure
    listed: list[dict[str, Any]] = []
    for field in _fields(columns, comments or {}):
        schema = add_column(schema, field, parent, first=first, after=after)
        position = "FIRST" if first else None if after is None else f"AFTER {after}"
        listed.append({"column": _described(parent, field)} | ({"position": position} if position else {}))
        # The next one comes after this one.
        first, after = False, field.name if first or after is not None else None
    metadata = _described_by(entry, snapshot, snapshot.metadata, schema)
    return _draft(entry, snapshot, metadata, "ADD COLUMNS", {"columns": dump_json(listed).decode()})


def draft_rename_column(
    entry: TableEntry, snapshot: Snapshot, column: str | Sequence[str], name: str, *, column_mapping: bool = False
) -> CommitDraft:
    """Another name for a column. Files know it by a name that stays, so the table must map its columns."""
    _check(entry, snapshot)
    base = _mapped(entry, snapshot, "renamed", column_mapping)
    path = resolve(snapshot.structure, parse_path(column))
    renamed = (*path[:-1], name)
    refuse_dependents(entry, snapshot, path, "renamed")
    schema = rename_column(parse_schema(base.schema_string), path, name)
    partitions = tuple(name if (known,) == path else known for known in base.partition_columns)
    metadata = msgspec.structs.replace(
        base,
        partition_columns=partitions,
        configuration=_with_stats_columns(
            base.configuration, lambda known: renamed + known[len(path) :] if is_within(known, path) else known
        ),
    )
    parameters = {"oldColumnPath": path_text(path), "newColumnPath": path_text(renamed)}
    return _draft(
        entry, snapshot, _described_by(entry, snapshot, metadata, schema), "RENAME COLUMN", parameters, "columnMapping"
    )


def draft_drop_columns(
    services: Services,
    entry: TableEntry,
    snapshot: Snapshot,
    columns: Sequence[str | Sequence[str]],
    *,
    column_mapping: bool = False,
) -> CommitDraft:
    """Columns less. Files keep their values, unseen, until the rows are rewritten."""
    _check(entry, snapshot)
    if isinstance(columns, str) or not columns:
        raise InvalidInputError("columns must be a list of names", hint="give a list: ['a', 'b.c']", field="columns")
    base = _mapped(entry, snapshot, "dropped", column_mapping)
    paths = [resolve(snapshot.structure, parse_path(column)) for column in columns]
    clustered = clustering_columns(services, entry, snapshot)
    schema, configuration = parse_schema(base.schema_string), base.configuration
    for path in paths:
        if path[0] in base.partition_columns:
            raise column_error(path, "is a partition column and cannot be dropped", "make a new table without it")
        physical = physical_path(snapshot.structure, path)
        if physical is not None and any(is_within(each, physical) for each in clustered):
            raise column_error(path, "is a clustering column and cannot be dropped", "cluster by another one first")
        refuse_dependents(entry, snapshot, path, "dropped")
        schema = drop_column(schema, path)
        configuration = _with_stats_columns(
            configuration, lambda known, path=path: None if is_within(known, path) else known
        )
    metadata = msgspec.structs.replace(base, configuration=configuration)
    parameters = {"columns": dump_json([path_text(path) for path in paths]).decode()}
    return _draft(
        entry, snapshot, _described_by(entry, snapshot, metadata, schema), "DROP COLUMNS", parameters, "columnMapping"
    )


def draft_widen_column(
    entry: TableEntry,
    snapshot: Snapshot,
    column: str | Sequence[str],
    wider: DataType | str,
    *,
    type_widening: bool = False,
) -> CommitDraft:
    """A wider type for a column, or for the elements of an array or map. Files keep the narrower values."""
    _check(entry, snapshot)
    base = snapshot.metadata
    if base.configuration.get(TYPE_WIDENING, "").lower() != "true":
        if not type_widening:
            raise UnsupportedError(
                f"table {entry.name!r} does not allow columns to be widened ({TYPE_WIDENING} is not true)",
                hint="repeat with type_widening=True; from then on readers must know the feature typeWidening",
                field="type_widening",
            )
        base = _configured(base, {TYPE_WIDENING: "true"})
    path = resolve(snapshot.structure, parse_path(column))
    kind = named_type(wider) if isinstance(wider, str) else wider
    schema = widen_column(snapshot.structure, path, kind)
    recorded = _recorded(entry, snapshot, schema)
    field = StructField(path[-1], kind, nullable=True)
    if is_field(snapshot.structure, path):
        field = msgspec.structs.replace(field_at(snapshot.structure, path), type=kind)
    parameters = {"column": dump_json(_described(path[:-1], field)).decode()}
    metadata = _described_by(entry, snapshot, base, recorded)
    return _draft(entry, snapshot, metadata, "CHANGE COLUMN", parameters, _widening_feature(snapshot))


def draft_change_column(
    entry: TableEntry,
    snapshot: Snapshot,
    column: str | Sequence[str],
    *,
    comment: str | None = None,
    nullable: bool | None = None,
    first: bool = False,
    after: str | None = None,
) -> CommitDraft:
    """Another comment, place, or leave to be null, for a column."""
    _check(entry, snapshot)
    path = resolve(snapshot.structure, parse_path(column))
    old = field_at(snapshot.structure, path)
    if nullable is False and old.nullable:
        hint = "rows that exist may be null there: add a CHECK constraint that says IS NOT NULL, which looks at them"
        raise column_error(path, "is nullable and cannot become NOT NULL", hint)
    new = msgspec.structs.replace(
        old,
        nullable=old.nullable if nullable is None else nullable,
        metadata=old.metadata if comment is None else {**old.metadata, "comment": comment},
    )
    schema = change_column(snapshot.structure, path, lambda _: new)
    schema = move_column(schema, path, first=first, after=after)
    if schema == snapshot.structure:
        raise column_error(path, "is so already", "say what shall change: comment, nullable=True, first or after")
    position = {"position": "FIRST"} if first else {} if after is None else {"position": f"AFTER {after}"}
    parameters = {"column": dump_json(_described(path[:-1], new)).decode(), **position}
    metadata = _described_by(entry, snapshot, snapshot.metadata, schema)
    return _draft(entry, snapshot, metadata, "CHANGE COLUMN", parameters)


def draft_enable_feature(entry: TableEntry, snapshot: Snapshot, feature: str) -> CommitDraft | None:
    """Switch on what a later change of columns needs. None where it is on."""
    _check(entry, snapshot)
    if feature not in _ENABLED_BY:
        raise UnsupportedError(
            f"{feature!r:.60} cannot be switched on here",
            hint=f"choose from: {', '.join(_ENABLED_BY)}",
            field="feature",
        )
    properties = _ENABLED_BY[feature]
    metadata = snapshot.metadata
    if feature == "columnMapping":
        metadata = metadata if is_mapped(metadata.configuration) else switch_on(metadata)
    elif feature == "typeWidening":
        metadata = _configured(metadata, properties)
        feature = _widening_feature(snapshot)
    draft = _draft(
        entry, snapshot, metadata, "SET TBLPROPERTIES", {"properties": dump_json(properties).decode()}, feature
    )
    return draft if draft.actions != [snapshot.metadata] else None


def evolved(entry: TableEntry, snapshot: Snapshot, data: pa.Schema) -> Metadata:
    """The table's metadata with the columns that only the data has, and wider types where the table allows them."""
    _check(entry, snapshot)
    widening = snapshot.metadata.configuration.get(TYPE_WIDENING, "").lower() == "true"
    schema = evolve(snapshot.structure, data, widening=widening)
    if schema == snapshot.structure:
        return snapshot.metadata
    return _described_by(entry, snapshot, snapshot.metadata, _recorded(entry, snapshot, schema))


# -- what all of them need --------------------------------------------------------------------------------------------


def _check(entry: TableEntry, snapshot: Snapshot) -> None:
    check_alterable(entry.name, snapshot.protocol, snapshot.metadata)


def _draft(
    entry: TableEntry,
    snapshot: Snapshot,
    metadata: Metadata,
    operation: str,
    parameters: Mapping[str, Any],
    *features: str,
) -> CommitDraft:
    protocol = with_features(snapshot.protocol, *features)
    actions: list[Action] = [metadata]
    if protocol != snapshot.protocol:
        actions.append(protocol)
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=actions,
        operation=operation,
        parameters=parameters,
        read_version=snapshot.version,
        looked=True,
    )


def _described_by(entry: TableEntry, snapshot: Snapshot, metadata: Metadata, schema: StructType) -> Metadata:
    """The metadata with another schema, checked: every name and type must do for files too."""
    described = msgspec.structs.replace(metadata, schema_string=schema_string(schema))
    if is_mapped(metadata.configuration):
        described = assign_missing(described)
        check_schema(physical_schema(parse_schema(described.schema_string)))
    else:
        check_schema(schema)
    # Types that Delta has and deltasql cannot write are told here.
    schema_to_arrow(schema)
    if uses_timestamp_ntz(schema) and not supports(snapshot.protocol, "timestampNtz"):
        raise UnsupportedError(
            f"table {entry.name!r} would get a timestamp without a time zone, for which it needs timestampNtz",
            hint="switch it on first, with enable_feature('timestampNtz'): from then on readers must know it",
            field="schema",
        )
    return described


def _mapped(entry: TableEntry, snapshot: Snapshot, what: str, column_mapping: bool) -> Metadata:
    if is_mapped(snapshot.metadata.configuration):
        return snapshot.metadata
    if column_mapping:
        return switch_on(snapshot.metadata)
    raise UnsupportedError(
        f"table {entry.name!r} does not map its columns, so none can be {what} without rewriting its files",
        hint="repeat with column_mapping=True; from then on readers must know column mapping",
        field="column_mapping",
    )


def _widening_feature(snapshot: Snapshot) -> str:
    """A table that has the preview keeps to it: readers that know only that would be shut out."""
    return "typeWidening-preview" if supports(snapshot.protocol, "typeWidening-preview") else "typeWidening"


def _recorded(entry: TableEntry, snapshot: Snapshot, schema: StructType) -> StructType:
    """The schema with its wider types recorded, unless something depends on a type that it had."""
    for path in widened_paths(snapshot.structure, schema):
        refuse_dependents(entry, snapshot, path, "widened")
        marks: Mapping[str, Any] = {}
        if is_field(snapshot.structure, path):
            marks = field_at(snapshot.structure, path).metadata
        if any(mark.startswith("delta.identity.") or mark == "delta.generationExpression" for mark in marks):
            raise column_error(path, "is given its values by the table and keeps its type", "add another column")
    preview = _widening_feature(snapshot) == "typeWidening-preview"
    return record_type_changes(snapshot.structure, schema, snapshot.version + 1 if preview else None)


def _configured(metadata: Metadata, properties: Mapping[str, str]) -> Metadata:
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **properties})


def _fields(columns: pa.Schema | StructType | str, comments: Mapping[str, str]) -> list[StructField]:
    if isinstance(columns, str):
        columns = parse_schema(columns)
    schema = schema_from_arrow(columns) if isinstance(columns, pa.Schema) else columns
    for field in all_fields(schema):
        if set(field.metadata) - {"comment"}:
            raise column_error(
                (field.name,), "comes with metadata that a new column cannot have", "leave all but a comment out"
            )
    if unknown := sorted(set(comments).difference(schema.names)):
        raise SchemaError(f"a comment for {unknown[0]!r:.100}, which is not added", hint="correct it", field="comments")
    if not schema.fields:
        raise SchemaError("no column to add", hint="name at least one", field="columns")
    return [
        msgspec.structs.replace(field, metadata={**field.metadata, "comment": comments[field.name]})
        if field.name in comments
        else field
        for field in schema.fields
    ]


def _described(parents: Path, field: StructField) -> dict[str, Any]:
    """A field as `commitInfo` shows it."""
    return {
        "name": path_text((*parents, field.name)),
        "type": type_text(field.type),
        "nullable": field.nullable,
        "metadata": field.metadata,
    }


def _with_stats_columns(configuration: Mapping[str, str], change: Callable[[Path], Path | None]) -> dict[str, str]:
    """The properties, with the columns that are named for statistics renamed or left out."""
    kept = dict(configuration)
    if text := kept.pop(STATS_COLUMNS, None):
        changed = [change(parse_path(name.strip())) for name in text.split(",") if name.strip()]
        if names := [path_text(path) for path in changed if path is not None]:
            kept[STATS_COLUMNS] = ",".join(names)
    return kept
