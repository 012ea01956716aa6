"""Whether a commit may be rebased onto what was committed since it looked: Delta's rules, as a pure function.

The rules are those of Delta Spark's conflict checker. Each place where they differ says so, with the reason;
docs/conflicts.md has them as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from deltasql.outcomes import Conflict, ConflictReason
from deltasql.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.rebase import ROW_TRACKING_DOMAIN

FileKey = tuple[str, str]

# `WriteSerializable` lets a commit stand although a blind append meanwhile added rows that it would have read:
# as if the append had come second.
IsolationLevel = Literal["Serializable", "WriteSerializable"]


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer looked at before it decided what to write.

    `files` are the files whose rows it used. `may_match` says whether a file added meanwhile would have been among
    them; None with `whole_table` False means that no file would.
    """

    whole_table: bool = False
    files: frozenset[FileKey] = frozenset()
    may_match: Callable[[AddFile], bool] | None = None

    @property
    def blind(self) -> bool:
        return not self.whole_table and not self.files and self.may_match is None


# A writer that looked at nothing, such as an append.
BLIND = Reads()

# Of several reasons in one winner the first of these is told. Delta asks in the same order, except that it looks
# for appended files before removed ones: here the file that both commits touched is named, which says more.
_REASONS: dict[ConflictReason, str] = {
    "protocol_changed": "the table's protocol was changed meanwhile",
    "metadata_changed": "the table's schema or properties were changed meanwhile",
    "concurrent_domain": "the domain {name!r} was changed meanwhile",
    "concurrent_transaction": "application {name!r} committed meanwhile",
    "concurrent_delete_delete": "a file this commit removes was removed meanwhile",
    "concurrent_delete_read": "a file this commit has read was removed meanwhile",
    "concurrent_append": "a file that this commit should have read was added meanwhile",
}


def find_conflict(
    table: str,
    reads: Reads,
    actions: Sequence[Action],
    winners: Iterable[tuple[int, Sequence[Action]]],
    isolation: IsolationLevel = "Serializable",
) -> Conflict | None:
    """Why `actions` may not stand after `winners` (version and actions of each), or None.

    A winner's `CommitInfo` says whether it was a blind append; one without is taken for none.
    """
    mine = _summarise(reads, actions, isolation)
    for version, winner in winners:
        misses_appends = mine.misses_appends or (mine.misses_blind_appends and _is_blind_append(winner))
        found: dict[ConflictReason, Action] = {}
        for action in winner:
            if (reason := _judge(mine, action, misses_appends)) is not None:
                found.setdefault(reason, action)
        for reason, text in _REASONS.items():
            if (action := found.get(reason)) is not None:
                files = (action.path,) if isinstance(action, AddFile | RemoveFile) else ()
                detail = text.format(name=_name(action))
                return Conflict(table=table, reason=reason, winning_version=version, files=files, detail=detail)
    return None


class _Mine(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit looked at and touches, ready to be compared."""

    reads: Reads
    read: set[str]
    removed: set[str]
    applications: set[str]
    domains: set[str]
    misses_appends: bool
    misses_blind_appends: bool


def _summarise(reads: Reads, actions: Sequence[Action], isolation: IsolationLevel) -> _Mine:
    return _Mine(
        reads=reads,
        # By path, as Delta does: a file whose deletion vector was replaced is not the file that was read.
        read={path for path, _ in reads.files},
        removed={action.path for action in actions if isinstance(action, RemoveFile)},
        # Delta asks which applications were read. Who writes a marker must have known the one before.
        applications={action.app_id for action in actions if isinstance(action, SetTransaction)},
        # The mark of assigned row ids is moved on by the rebase, so two commits may both move it.
        domains={action.domain for action in actions if isinstance(action, DomainMetadata)} - {ROW_TRACKING_DOMAIN},
        # A commit that only moves rows from file to file, a compaction, says the same whatever else was added.
        misses_appends=all(_moves_rows(action) for action in actions),
        misses_blind_appends=isolation == "WriteSerializable" and not any(isinstance(a, Metadata) for a in actions),
    )


def _moves_rows(action: Action) -> bool:
    """Whether an action leaves the table's rows, and everything else that is said of it, as they are."""
    match action:
        case AddFile() | RemoveFile() | AddCdcFile():
            return not action.data_change
        case DomainMetadata():
            return action.domain == ROW_TRACKING_DOMAIN
        case _:
            return isinstance(action, CommitInfo)


def _is_blind_append(winner: Sequence[Action]) -> bool:
    return any(isinstance(action, CommitInfo) and action.is_blind_append is True for action in winner)


def _judge(mine: _Mine, action: Action, misses_appends: bool) -> ConflictReason | None:
    """Why one action of a winner stands against a commit, or None."""
    reads = mine.reads
    match action:
        # Delta lets a commit stand after some changes of protocol and properties (features added, row tracking,
        # deletion vectors or in-commit timestamps switched on), as it then checks again what it writes. Here the
        # checks lie before the commit, so they must be made again.
        case TableProtocol():
            return "protocol_changed"
        case Metadata():
            return "metadata_changed"
        case DomainMetadata() if action.domain in mine.domains:
            return "concurrent_domain"
        case SetTransaction() if action.app_id in mine.applications:
            return "concurrent_transaction"
        case RemoveFile() if action.path in mine.removed:
            return "concurrent_delete_delete"
        case RemoveFile() if reads.whole_table or action.path in mine.read:
            return "concurrent_delete_read"
        # Delta refuses rewritten files (dataChange=false) too. Their rows are those of the files removed beside
        # them, and who read one of these is refused for that.
        case AddFile() if action.data_change and not misses_appends and _would_have_read(reads, action):
            return "concurrent_append"
        case _:
            return None


def _would_have_read(reads: Reads, add: AddFile) -> bool:
    # Delta looks at partition values only; statistics rule out more files, and none that holds a matching row.
    return reads.whole_table or (reads.may_match is not None and reads.may_match(add))


def _name(action: Action) -> str:
    match action:
        case DomainMetadata():
            return action.domain
        case SetTransaction():
            return action.app_id
        case _:
            return ""
