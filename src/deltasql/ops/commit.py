"""Commits of ready-made actions: for engines that write their data files themselves."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.errors import InvalidInputError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Action, AddCdcFile, AddFile, RemoveFile
from deltasql.protocol.conflicts import Reads
from deltasql.protocol.jsonlog import load_object
from deltasql.protocol.paths import check_relative

_MAX = 2**63 - 1


def draft_commit(
    entry: TableEntry,
    snapshot: Snapshot,
    actions: Sequence[Action],
    operation: str,
    read_version: int | None,
    token: str | None,
) -> CommitDraft:
    """Check what an engine hands in, as far as it can be seen without opening the files."""
    partitioned = set(snapshot.metadata.partition_columns)
    for place, action in enumerate(actions):
        field = f"actions[{place}]"
        if isinstance(action, AddFile | AddCdcFile):
            _check_file(action, field, partitioned)
        if isinstance(action, AddFile) and action.stats is not None:
            load_object(action.stats, source=f"{field}.stats")
    removed = frozenset((action.path, action.dv_id) for action in actions if isinstance(action, RemoveFile))
    return CommitDraft(
        table=entry.name,
        actions=actions,
        operation=operation,
        read_version=snapshot.version if read_version is None else read_version,
        # What else the engine read is not known here; the files it removes it must have read.
        reads=Reads(files=removed),
        token=token,
    )


def _check_file(action: AddFile | AddCdcFile, field: str, partitioned: set[str]) -> None:
    check_relative(action.path)
    if not 0 <= action.size <= _MAX:
        raise InvalidInputError(f"{field}: the size {action.size} is impossible", hint="give bytes", field=field)
    if set(action.partition_values) != partitioned:
        raise InvalidInputError(
            f"{field}: partition values for {sorted(action.partition_values)}, the table is partitioned by "
            f"{sorted(partitioned)}",
            hint="give a value (or None) for each partition column, and for no other",
            field=f"{field}.partition_values",
        )
