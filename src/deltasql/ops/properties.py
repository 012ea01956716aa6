"""Changing what is said of a table: its properties and its CHECK constraints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from deltasql.errors import InvalidInputError, NotFoundError, SchemaError, TableExistsError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.constraints import CONSTRAINT, Constraint, check_constraints
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Action, Metadata
from deltasql.protocol.conflicts import BLIND, Reads
from deltasql.protocol.features import check_alterable, check_readable, with_features
from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.predicate import parse
from deltasql.protocol.properties import (
    APPEND_ONLY,
    IN_COMMIT_TIMESTAMPS,
    check_properties,
    in_commit_timestamps,
    stats_columns,
)
from deltasql.protocol.schema import DataType, StructType
from deltasql.protocol.skipping import matches_all

# Properties that mean nothing, and must not be set, without a feature in the protocol.
_FEATURES = {APPEND_ONLY: "appendOnly", IN_COMMIT_TIMESTAMPS: "inCommitTimestamp"}
# What deltasql does not write, and therefore lets nobody begin; to end it is always safe.
_ENDED = frozenset({"delta.enableChangeDataFeed", "delta.enableDeletionVectors"})
# Spark takes these for something else than properties, and refuses to set them.
_RESERVED = frozenset({"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"})
_ENABLED_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLED_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_NAME = re.compile(r"[^\W\d]\w{0,254}")


def draft_set_properties(entry: TableEntry, snapshot: Snapshot, properties: Mapping[str, str]) -> CommitDraft:
    """Give properties new values; all others stay."""
    if not properties:
        raise InvalidInputError("no property is given", hint="give a name and a value", field="properties")
    for name in properties:
        _refuse_reserved(name)
    check_properties(properties)
    _check_stats_columns(snapshot.structure, properties)
    metadata = _configured(snapshot.metadata, {**snapshot.metadata.configuration, **properties})
    if in_commit_timestamps(metadata.configuration) and not in_commit_timestamps(snapshot.metadata.configuration):
        metadata = _begin_timestamps(metadata, snapshot.version)
    needed = [name for key, name in _FEATURES.items() if properties.get(key, "").lower() == "true"]
    parameters = {"properties": dump_json(dict(properties)).decode()}
    return _draft(entry, snapshot, metadata, "SET TBLPROPERTIES", parameters, features=needed)


def draft_unset_properties(
    entry: TableEntry, snapshot: Snapshot, names: Sequence[str], *, if_exists: bool = False
) -> CommitDraft | None:
    """Take properties away, so that their defaults hold. None where there is nothing to take away."""
    if isinstance(names, str) or not names:
        raise InvalidInputError("no list of properties is given", hint="give a list of names", field="properties")
    present = snapshot.metadata.configuration
    for name in names:
        _refuse_reserved(name)
        if name in present:
            _check_known(name, present[name])
        elif not if_exists:
            raise NotFoundError(
                f"table {entry.name!r} has no property {name!r:.100}",
                hint=f"it has: {', '.join(sorted(present)) or 'none'}",
                field="properties",
            )
    kept = {name: value for name, value in present.items() if name not in names}
    if len(kept) == len(present):
        return None
    parameters = {"properties": dump_json(list(names)).decode(), "ifExists": if_exists}
    return _draft(entry, snapshot, _configured(snapshot.metadata, kept), "UNSET TBLPROPERTIES", parameters)


def draft_add_constraint(entry: TableEntry, snapshot: Snapshot, name: str, expression: str) -> CommitDraft:
    """Let every row make `expression` true, from now on. Those that are there are looked at first."""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r:.100} cannot be the name of a constraint",
            hint="use letters, digits and underscores, not a digit first",
            field="name",
        )
    if known := _find(snapshot.metadata, name):
        raise TableExistsError(
            f"table {entry.name!r} has a constraint {name!r} already: {known[1]:.200}",
            hint="drop it first, or use another name",
            field="name",
        )
    constraint = Constraint(name, expression.strip(), parse(expression, snapshot.structure))
    _check_present_rows(entry, snapshot, constraint)
    # Delta looks constraints up by their names in small letters.
    configuration = {**snapshot.metadata.configuration, f"{CONSTRAINT}{name.lower()}": constraint.expression}
    return _draft(
        entry,
        snapshot,
        _configured(snapshot.metadata, configuration),
        "ADD CONSTRAINT",
        {"name": name, "expr": constraint.expression},
        features=["checkConstraints"],
        # Whatever is added meanwhile would have had to be looked at too.
        reads=Reads(whole_table=True),
    )


def draft_drop_constraint(
    entry: TableEntry, snapshot: Snapshot, name: str, *, if_exists: bool = False
) -> CommitDraft | None:
    """Ask no longer for what a constraint says. None where there is none of that name."""
    found = _find(snapshot.metadata, name)
    if found is None:
        if if_exists:
            return None
        names = ", ".join(sorted(check_constraints(snapshot.metadata.configuration)))
        raise NotFoundError(
            f"table {entry.name!r} has no constraint {name!r:.100}", hint=f"it has: {names or 'none'}", field="name"
        )
    key, expression = found
    kept = {each: value for each, value in snapshot.metadata.configuration.items() if each != key}
    parameters = {"name": name, "expr": expression, "existed": "true"}
    return _draft(entry, snapshot, _configured(snapshot.metadata, kept), "DROP CONSTRAINT", parameters)


def _draft(
    entry: TableEntry,
    snapshot: Snapshot,
    metadata: Metadata,
    operation: str,
    parameters: Mapping[str, object],
    *,
    features: Sequence[str] = (),
    reads: Reads = BLIND,
) -> CommitDraft:
    """The commit of new metadata, and of the protocol where it must promise more than before."""
    check_alterable(entry.name, snapshot.protocol, snapshot.metadata)
    protocol = with_features(snapshot.protocol, *features)
    actions: list[Action] = [metadata] if protocol == snapshot.protocol else [metadata, protocol]
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=actions,
        operation=operation,
        parameters=parameters,
        read_version=snapshot.version,
        reads=reads,
    )


def _configured(metadata: Metadata, configuration: Mapping[str, str]) -> Metadata:
    return msgspec.structs.replace(metadata, configuration=configuration)


def _begin_timestamps(metadata: Metadata, read_version: int) -> Metadata:
    """Say from which version on commits have a time of their own. The ledger puts both right as it commits."""
    enabled = {_ENABLED_VERSION: str(read_version + 1), _ENABLED_TIMESTAMP: "0"}
    return _configured(metadata, {**metadata.configuration, **enabled})


def _refuse_reserved(name: object) -> None:
    if isinstance(name, str) and name.lower().startswith(CONSTRAINT):
        raise InvalidInputError(
            f"{name!r:.100} is a constraint",
            hint="add or drop it as one: deltasql table constraint add NAME CONSTRAINT EXPRESSION",
            field=f"properties.{name}",
        )
    if name in _RESERVED:
        raise InvalidInputError(
            f"{name!r} is no property to Spark", hint="use another name", field=f"properties.{name}"
        )


def _check_known(name: str, value: str) -> None:
    """Refuse to take away what other parts of the table lean on. A bad value is one more reason to take it away."""
    if name in _ENDED:
        return
    with suppress(InvalidInputError):
        check_properties({name: value})


def _check_stats_columns(schema: StructType, properties: Mapping[str, str]) -> None:
    for column in stats_columns(properties) or ():
        kind: DataType = schema
        for name in column.split("."):
            field = kind.field(name) if isinstance(kind, StructType) else None
            if field is None:
                raise SchemaError(
                    f"there is no column {column} to keep statistics of",
                    hint=f"choose from: {', '.join(schema.names)}",
                    field="properties.delta.dataSkippingStatsColumns",
                )
            kind = field.type


def _find(metadata: Metadata, name: str) -> tuple[str, str] | None:
    """The property and the expression of a constraint."""
    for key, expression in metadata.configuration.items():
        if key.lower() == f"{CONSTRAINT}{name.lower()}":
            return key, expression
    return None


def _check_present_rows(entry: TableEntry, snapshot: Snapshot, constraint: Constraint) -> None:
    check_readable(entry.name, snapshot.protocol, snapshot.metadata)
    for add in snapshot.adds():
        if matches_all(constraint.predicate, snapshot.facts(add)):
            continue
        rows = snapshot.rows(add)
        broken = constraint.broken_by(rows)
        if broken.num_rows:
            raise constraint.violated(broken, rows.num_rows, table=entry.name, place=f" in {add.path}")
