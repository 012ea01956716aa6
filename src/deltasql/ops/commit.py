"""Commits of ready-made actions: for engines that write their data files themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import get_args

import msgspec

from deltasql.errors import InvalidInputError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Action, AddCdcFile, AddFile, RemoveFile, SetTransaction
from deltasql.protocol.column_mapping import physical_partitions
from deltasql.protocol.conflicts import IsolationLevel, Reads
from deltasql.protocol.features import check_committable
from deltasql.protocol.jsonlog import load_object
from deltasql.protocol.paths import check_relative

_MAX = 2**63 - 1


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a commit shall be made: against whom it may lose, and what it is known by when it is tried again."""

    isolation: IsolationLevel = "Serializable"
    token: str | None = None
    txn: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        if self.isolation not in get_args(IsolationLevel):
            raise InvalidInputError(
                f"{self.isolation!r:.60} is no isolation level",
                hint=f"use {' or '.join(get_args(IsolationLevel))}",
                field="isolation",
            )
        match self.txn:
            case None | (str(), int()):
                return
            case _:
                raise InvalidInputError(
                    f"{self.txn!r:.100} is not a name and a number", hint='give txn=("my-job", 17)', field="txn"
                )

    def apply(self, draft: CommitDraft) -> CommitDraft:
        txn = None
        if self.txn is not None:
            app_id, version = self.txn
            txn = SetTransaction(app_id=app_id, version=version, last_updated=time.time_ns() // 1_000_000)
        return msgspec.structs.replace(draft, isolation=self.isolation, token=self.token, txn=txn)


def draft_commit(
    entry: TableEntry,
    snapshot: Snapshot,
    actions: Sequence[Action],
    operation: str,
    read_version: int | None,
) -> CommitDraft:
    """Check what an engine hands in, as far as it can be seen without opening the files."""
    # Engines name columns as files do.
    partitioned = set(physical_partitions(snapshot.metadata))
    for place, action in enumerate(actions):
        field = f"actions[{place}]"
        if isinstance(action, AddFile | AddCdcFile):
            _check_file(action, field, partitioned)
        if isinstance(action, AddFile) and action.stats is not None:
            load_object(action.stats, source=f"{field}.stats")
    check_committable(entry.name, snapshot.protocol, snapshot.metadata)
    # A file that is described again must still be there, like one that is removed.
    touched = frozenset(
        (action.path, action.dv_id)
        for action in actions
        if isinstance(action, RemoveFile) or (isinstance(action, AddFile) and not action.data_change)
    )
    return CommitDraft(
        table=entry.name,
        table_id=entry.table_id,
        actions=actions,
        operation=operation,
        read_version=snapshot.version if read_version is None else read_version,
        # What else the engine read is not known here; the files it removes it must have read.
        reads=Reads(files=touched),
        looked=read_version is not None,
    )


def is_append(actions: Sequence[Action]) -> bool:
    """Whether all that is committed are new rows."""
    return all(isinstance(action, AddFile) and action.data_change for action in actions)


def _check_file(action: AddFile | AddCdcFile, field: str, partitioned: set[str]) -> None:
    if type(action.path) is not str or type(action.size) is not int:
        raise InvalidInputError(f"{field}: path and size are no text and number", hint="give both", field=field)
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
