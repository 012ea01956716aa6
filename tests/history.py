"""Judges what concurrent writers of one table were told against what its ledger holds.

Writers note their operations with `time.monotonic_ns()`, which all processes of a Linux machine share. Operations are
plain values, so that another process can hand them over as JSON.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from deltasql.ledger.contracts import RecordedCommit
from deltasql.protocol.actions import Action, AddFile, Metadata, RemoveFile, TableProtocol

Kind = Literal["create", "append", "delete", "overwrite"]
# A writer whose outcome is a conflict or a failure was told that nothing was written; an unknown one was told nothing.
Outcome = Literal["committed", "conflict", "failed", "unknown"]

ViolationName = Literal[
    "versions_not_consecutive",
    "lost_commit",
    "acknowledged_twice",
    "altered_commit",
    "unannounced_commit",
    "refused_commit_recorded",
    "timestamp_not_increasing",
    "removed_inactive_file",
    "file_active_twice",
    "real_time_order",
    "version_not_after_read",
    "missed_append",
    "missed_removal",
    "missed_metadata",
]
VIOLATIONS: tuple[ViolationName, ...] = get_args(ViolationName)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What one writer tried to commit, as it saw it. Trying again with the same token is the same operation.

    Files are named as `file_name` does: by path, where there are no deletion vectors. `read_files` are the files whose
    rows it used. `scope` is the beginning of the path of every file it would have used, had it been there: "" for
    the whole table, None for a writer that looked for none. `version` and `timestamp` are the answer.
    """

    kind: Kind
    began: int
    ended: int
    outcome: Outcome
    read_version: int | None = None
    version: int | None = None
    timestamp: int | None = None
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    read_files: frozenset[str] = frozenset()
    scope: str | None = None


class Violation(msgspec.Struct, frozen=True):
    """Something that must not be. `version` is where in the ledger, or would have been."""

    name: ViolationName
    version: int | None
    detail: str

    def __str__(self) -> str:
        return f"{self.name} at version {self.version}: {self.detail}"


class _Told(msgspec.Struct, frozen=True):
    """An operation, who made it, and the version it stands for in the ledger."""

    worker: str
    operation: Operation
    version: int

    def __str__(self) -> str:
        return f"{self.operation.kind} of {self.worker}"


def file_name(action: AddFile | RemoveFile) -> str:
    """A file's identity: its path, and its deletion vector if it has one."""
    return f"{action.path}#{action.dv_id}" if action.dv_id else action.path


def files_of(actions: Iterable[Action]) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the files that a commit adds, and of those it removes."""
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    added = frozenset(file_name(action) for action in files if isinstance(action, AddFile))
    return added, frozenset(file_name(action) for action in files if isinstance(action, RemoveFile))


def violations(history: Mapping[str, Sequence[Operation]], recorded: Sequence[RecordedCommit]) -> list[Violation]:
    """Everything wrong with a table. `history` holds each worker's operations in the order it made them.

    Every commit must be somebody's, the one that created the table too.
    """
    _check(history)
    # Of a version that is there twice the first counts, and the second is reported.
    ledger: dict[int, RecordedCommit] = {}
    for commit in recorded:
        ledger.setdefault(commit.version, commit)
    ledger = dict(sorted(ledger.items()))
    told = [
        _Told(worker, operation, operation.version)
        for worker, operations in history.items()
        for operation in operations
        if operation.outcome == "committed" and operation.version is not None
    ]
    found = [*_versions(recorded), *_acknowledged(told, ledger)]
    resolved: list[_Told] = []
    found += _unannounced(history, told, ledger, resolved)
    found += _timestamps(ledger)
    found += _files(ledger)
    found += _real_time(told, resolved)
    for one in (*told, *resolved):
        found += _isolation(one, ledger)
    return found


def _check(history: Mapping[str, Sequence[Operation]]) -> None:
    """A history that was noted wrongly would prove nothing."""
    for worker, operations in history.items():
        earlier = None
        for operation in operations:
            if operation.ended < operation.began or (earlier is not None and operation.began < earlier):
                raise ValueError(f"{worker}: operations overlap; give each thread a name of its own")
            if operation.outcome == "committed" and (operation.version is None or operation.timestamp is None):
                raise ValueError(f"{worker}: a committed operation needs its version and timestamp")
            if operation.kind in ("delete", "overwrite") and None in (operation.read_version, operation.scope):
                raise ValueError(f"{worker}: a {operation.kind} needs its read version and scope")
            earlier = operation.ended


def _versions(recorded: Sequence[RecordedCommit]) -> Iterator[Violation]:
    for place, commit in enumerate(recorded):
        if commit.version != place:
            detail = f"expected version {place}, found {commit.version}"
            yield Violation("versions_not_consecutive", commit.version, detail)
            return


def _acknowledged(told: Sequence[_Told], ledger: Mapping[int, RecordedCommit]) -> Iterator[Violation]:
    """Each acknowledged commit is there once, and as it was acknowledged."""
    times = Counter(one.version for one in told)
    for version, count in times.items():
        if count > 1:
            yield Violation("acknowledged_twice", version, f"{count} operations were told this version")
    for one in told:
        commit = ledger.get(one.version)
        if commit is None:
            yield Violation("lost_commit", one.version, f"{one} was acknowledged, and the ledger does not have it")
        elif files_of(commit.actions) != (one.operation.added, one.operation.removed):
            yield Violation("altered_commit", one.version, f"{one} has other files in the ledger")
        elif commit.timestamp != one.operation.timestamp:
            detail = f"{one} was told timestamp {one.operation.timestamp}, the ledger has {commit.timestamp}"
            yield Violation("altered_commit", one.version, detail)


def _unannounced(
    history: Mapping[str, Sequence[Operation]],
    told: Sequence[_Told],
    ledger: Mapping[int, RecordedCommit],
    resolved: list[_Told],
) -> Iterator[Violation]:
    """Commits that nobody was told of. An operation of unknown outcome may stand for one; it joins `resolved`."""
    open_operations: dict[object, list[tuple[str, Operation]]] = defaultdict(list)
    for worker, operations in history.items():
        for operation in operations:
            if operation.outcome != "committed":
                open_operations[operation.added, operation.removed].append((worker, operation))
    # Unknown outcomes explain a commit before refusals are suspected of it.
    for candidates in open_operations.values():
        candidates.sort(key=lambda candidate: candidate[1].outcome != "unknown")
    announced = {one.version for one in told}
    for version, commit in ledger.items():
        if version in announced:
            continue
        candidates = open_operations[files_of(commit.actions)]
        if not candidates:
            yield Violation("unannounced_commit", version, "nobody was told of this commit")
            continue
        # Of several that would do, nobody knows whose it is, nor what it had read.
        sure = sum(operation.outcome == "unknown" for _, operation in candidates) == 1
        one = _Told(*candidates.pop(0), version)
        if sure:
            resolved.append(one)
        if one.operation.outcome != "unknown":
            yield Violation("refused_commit_recorded", version, f"{one} was told {one.operation.outcome}")


def _timestamps(ledger: Mapping[int, RecordedCommit]) -> Iterator[Violation]:
    before = None
    for version, commit in ledger.items():
        if before is not None and commit.timestamp <= before:
            yield Violation("timestamp_not_increasing", version, f"{commit.timestamp} comes after {before}")
        before = commit.timestamp


def _files(ledger: Mapping[int, RecordedCommit]) -> Iterator[Violation]:
    """A file is removed only while it is active, and a path is active once."""
    active: dict[str, str] = {}
    for version, commit in ledger.items():
        for action in commit.actions:
            if isinstance(action, RemoveFile) and active.get(action.path) != file_name(action):
                yield Violation("removed_inactive_file", version, file_name(action))
            elif isinstance(action, RemoveFile):
                del active[action.path]
        for action in commit.actions:
            if isinstance(action, AddFile):
                if action.path in active:
                    yield Violation("file_active_twice", version, file_name(action))
                active[action.path] = file_name(action)


def _real_time(told: Sequence[_Told], resolved: Sequence[_Told]) -> Iterator[Violation]:
    """What began after an acknowledgement comes after it. An unknown outcome acknowledges nothing."""
    acknowledged = sorted(told, key=lambda one: one.operation.ended)
    newest: _Told | None = None
    at = 0
    for one in sorted((*told, *resolved), key=lambda one: one.operation.began):
        while at < len(acknowledged) and acknowledged[at].operation.ended < one.operation.began:
            if newest is None or acknowledged[at].version > newest.version:
                newest = acknowledged[at]
            at += 1
        if newest is not None and one.version < newest.version:
            detail = f"{one} began after {newest} had been told version {newest.version}"
            yield Violation("real_time_order", one.version, detail)


def _isolation(one: _Told, ledger: Mapping[int, RecordedCommit]) -> Iterator[Violation]:
    """Nothing that came between reading and committing would have changed what the operation did."""
    read_version = one.operation.read_version
    if read_version is None:
        return
    if one.version <= read_version:
        yield Violation("version_not_after_read", one.version, f"{one} had read version {read_version}")
    for version in range(read_version + 1, one.version):
        for action in ledger[version].actions if version in ledger else ():
            name = _missed(one.operation, action)
            if name is not None:
                what = file_name(action) if isinstance(action, AddFile | RemoveFile) else type(action).__name__
                detail = f"{one} read version {read_version} and ignores {what} of version {version}"
                yield Violation(name, one.version, detail)


def _missed(operation: Operation, winner: Action) -> ViolationName | None:
    """What an operation ought to have known of a commit that came before its own."""
    match winner:
        case Metadata() | TableProtocol():
            return "missed_metadata"
        # A rewrite of the same rows (dataChange=false) adds nothing a reader could have missed.
        case AddFile() if winner.data_change and operation.scope is not None:
            return "missed_append" if winner.path.startswith(operation.scope) else None
        case RemoveFile() if file_name(winner) in operation.read_files | operation.removed or operation.scope == "":
            return "missed_removal"
        case _:
            return None
