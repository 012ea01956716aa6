"""Whether a commit may be rebased onto what was committed since it looked: Delta's rules, as a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from deltasql.outcomes import Conflict, ConflictReason
from deltasql.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)

FileKey = tuple[str, str]


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


def find_conflict(
    table: str,
    reads: Reads,
    actions: Sequence[Action],
    winners: Iterable[tuple[int, Sequence[Action]]],
) -> Conflict | None:
    """The first reason why `actions` may not stand after `winners` (version and actions of each), or None."""
    mine = _Mine(
        reads=reads,
        removed={(action.path, action.dv_id) for action in actions if isinstance(action, RemoveFile)},
        applications={action.app_id for action in actions if isinstance(action, SetTransaction)},
        domains={action.domain for action in actions if isinstance(action, DomainMetadata)},
    )
    for version, winner in winners:
        for action in winner:
            if (found := _judge(mine, action)) is not None:
                reason, detail = found
                files = (action.path,) if isinstance(action, AddFile | RemoveFile) else ()
                return Conflict(table=table, reason=reason, winning_version=version, files=files, detail=detail)
    return None


class _Mine(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit looked at and touches, ready to be compared."""

    reads: Reads
    removed: set[FileKey]
    applications: set[str]
    domains: set[str]


def _judge(mine: _Mine, action: Action) -> tuple[ConflictReason, str] | None:
    """Why one action of a winner stands against a commit, or None."""
    reads = mine.reads
    match action:
        case Metadata():
            return "metadata_changed", "the table's schema or properties were changed meanwhile"
        case TableProtocol():
            return "protocol_changed", "the table's protocol was changed meanwhile"
        case SetTransaction() if action.app_id in mine.applications:
            return "concurrent_transaction", f"application {action.app_id!r} committed meanwhile"
        case DomainMetadata() if action.domain in mine.domains:
            return "concurrent_domain", f"the domain {action.domain!r} was changed meanwhile"
        case RemoveFile() if (action.path, action.dv_id) in mine.removed:
            return "concurrent_delete_delete", "a file this commit removes was removed meanwhile"
        case RemoveFile() if reads.whole_table or (action.path, action.dv_id) in reads.files:
            return "concurrent_delete_read", "a file this commit has read was removed meanwhile"
        # A rewrite of the same rows (dataChange=false) adds nothing a reader could have missed.
        case AddFile() if action.data_change and (
            reads.whole_table or (reads.may_match is not None and reads.may_match(action))
        ):
            return "concurrent_append", "a file that this commit should have read was added meanwhile"
        case _:
            return None
