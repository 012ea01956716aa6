"""A commit at the place where it comes to stand: what depends on version, time and row ids is put right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from deltasql.errors import InvalidInputError, MalformedLogError
from deltasql.protocol.actions import Action, AddCdcFile, AddFile, DomainMetadata, Metadata, RemoveFile, UnknownAction
from deltasql.protocol.jsonlog import dump_json, load_object

ROW_TRACKING_DOMAIN = "delta.rowTracking"
# The mark of a table that tracks rows and has none yet.
NO_ROW_IDS = -1

_MARK = "rowIdHighWaterMark"
_ENABLED_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLED_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_TYPE_CHANGES, _TABLE_VERSION = "delta.typeChanges", "tableVersion"
_FILES = (RemoveFile, AddFile, AddCdcFile, UnknownAction)
_MAX = 2**63 - 1


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a commit comes to stand. `read_version` is what its writer looked at, None where it never said.

    `row_id_high_water` is the highest row id given out before it; None: the table does not track rows.
    """

    version: int
    timestamp: int
    read_version: int | None
    row_id_high_water: int | None


def settle(actions: Sequence[Action], place: Place) -> tuple[list[Action], int | None]:
    """The actions as they must stand at that place, and the new high-water mark of row ids."""
    settled = [_settle_metadata(action, place) if isinstance(action, Metadata) else action for action in actions]
    if place.row_id_high_water is None:
        return settled, None
    return _assign_row_ids(settled, place, place.row_id_high_water)


def row_id_high_water(domain_configuration: str) -> int:
    """The mark in the configuration of the domain `delta.rowTracking`."""
    mark = load_object(domain_configuration, source=ROW_TRACKING_DOMAIN).get(_MARK)
    if type(mark) is not int:
        raise MalformedLogError(
            f"{ROW_TRACKING_DOMAIN}: {_MARK} must be a whole number, found {mark!r:.100}",
            hint="repair the table with the engine that wrote it",
            field=_MARK,
        )
    return mark


def _assign_row_ids(actions: Sequence[Action], place: Place, before: int) -> tuple[list[Action], int]:
    mark = before
    assigned: list[Action] = []
    for action in actions:
        if isinstance(action, AddFile) and _is_fresh(action, place, before):
            records = _num_records(action, limit=_MAX - mark)
            action = _with_row_ids(action, mark + 1, place.version)
            mark += records
        # A mark that came with the commit was counted from another place.
        if not _is_mark(action):
            assigned.append(action)
    if mark != before:
        # Delta Spark repeats the domain's name in its configuration.
        configuration = f'{{"{_MARK}":{mark},"domainName":"{ROW_TRACKING_DOMAIN}"}}'
        domain = DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False)
        # Where a commit of ours lists its domains.
        first = next((index for index, action in enumerate(assigned) if isinstance(action, _FILES)), len(assigned))
        assigned.insert(first, domain)
    return assigned, mark


def _is_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN and not action.removed


def _is_fresh(add: AddFile, place: Place, mark: int) -> bool:
    """Whether the rows of a file need new ids: it has none, or its writer counted on from what it had read."""
    if add.base_row_id is None or add.base_row_id > mark:
        return True
    if add.default_row_commit_version is None:
        raise InvalidInputError(
            f"{add.path}: a base row id without a default row commit version",
            hint="give both, as the file had them before, or neither, for new rows",
            field="default_row_commit_version",
        )
    read_version = place.version - 1 if place.read_version is None else place.read_version
    return add.default_row_commit_version > read_version


def _with_row_ids(add: AddFile, base: int, version: int) -> AddFile:
    if (add.base_row_id, add.default_row_commit_version) == (base, version):
        return add
    return msgspec.structs.replace(add, base_row_id=base, default_row_commit_version=version)


def _num_records(add: AddFile, limit: int) -> int:
    """How many rows a file holds, those that a deletion vector hides among them."""
    count = None if add.stats is None else load_object(add.stats, source=f"{add.path}: stats").get("numRecords")
    if type(count) is not int or not 0 <= count <= limit:
        raise InvalidInputError(
            f"{add.path}: the table tracks rows, and numRecords is {count!r:.100}",
            hint="give the file's number of rows as numRecords in its stats",
            field="stats.numRecords",
        )
    return count


def _settle_metadata(metadata: Metadata, place: Place) -> Metadata:
    if place.read_version is None:
        return metadata
    expected = place.read_version + 1
    if metadata.configuration.get(_ENABLED_VERSION) == str(expected):
        enabled = {_ENABLED_VERSION: str(place.version), _ENABLED_TIMESTAMP: str(place.timestamp)}
        metadata = msgspec.structs.replace(metadata, configuration={**metadata.configuration, **enabled})
    if place.version != expected and _TABLE_VERSION in metadata.schema_string:
        schema = load_object(metadata.schema_string, source="metaData.schemaString")
        if _move_type_changes(schema, expected, place.version):
            metadata = msgspec.structs.replace(metadata, schema_string=dump_json(schema).decode())
    return metadata


def _move_type_changes(node: object, expected: int, version: int) -> bool:
    """Give the type changes of this commit its version; those of earlier commits keep theirs. Whether any moved."""
    moved = False
    if isinstance(node, list):
        for part in cast("list[object]", node):
            moved |= _move_type_changes(part, expected, version)
    elif isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key != _TYPE_CHANGES:
                moved |= _move_type_changes(value, expected, version)
                continue
            for change in value:
                if change.get(_TABLE_VERSION) == expected:
                    change[_TABLE_VERSION] = version
                    moved = True
    return moved
