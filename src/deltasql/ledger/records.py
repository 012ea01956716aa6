"""What a ledger records of a commit, worked out and checked before any database is asked. Every ledger shares it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, cast, get_args

import msgspec

from deltasql.errors import InvalidInputError, MalformedLogError
from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit, CommitDraft, RecordedCommit
from deltasql.ledger.registry import check_name
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import (
    ACTION_TYPES,
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    Metadata,
    RemoveFile,
    UnknownAction,
)
from deltasql.protocol.jsonlog import ENCODER_VERSION, dump_json, encode_commit, sha256
from deltasql.protocol.replay import commit_problem
from deltasql.version import ENGINE_INFO

# What the index of any database can hold.
MAX_KEY = 2_000

_KEYS = frozenset({"app_id", "domain"})

_ORDER = {kind: place for place, kind in enumerate(ACTION_TYPES.values())}
_KINDS = (*ACTION_TYPES.values(), UnknownAction)

# Integers of the protocol that have 32 bits; all others have 64.
_NARROW = frozenset({"offset", "size_in_bytes", "min_reader_version", "min_writer_version"})
_INTEGERS = {
    kind: tuple(field.name for field in msgspec.structs.fields(kind) if int in (field.type, *get_args(field.type)))
    for kind in (*_KINDS, DeletionVector)
}
_TEXTS = {
    kind: tuple(field.name for field in msgspec.structs.fields(kind) if field.type in (str, str | None))
    for kind in (*_KINDS, DeletionVector)
}


class Prepared(msgspec.Struct, frozen=True):
    """A draft with everything that can be done before a lock is taken."""

    draft: CommitDraft
    actions: list[Action]
    lines: bytes


class LostRaceError(Exception):
    """Carries a conflict out of a transaction, so that nothing of it stays. Never leaves a ledger."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(conflict.detail)
        self.conflict = conflict


def prepare(drafts: Sequence[CommitDraft]) -> list[Prepared]:
    """The drafts of one transaction, checked, their actions copied, put in order and encoded."""
    prepared = [_prepare(draft) for draft in drafts]
    if len({draft.table for draft in drafts}) != len(drafts):
        raise InvalidInputError(
            "a transaction holds one commit a table", hint="put everything for a table into one commit", field="table"
        )
    return prepared


def _prepare(draft: CommitDraft) -> Prepared:
    check_name(draft.table)
    check_text(draft.operation, "operation")
    check_text(draft.token, "token")
    check_text(draft.create_at, "location")
    for name, value in (("parameters", draft.parameters), ("metrics", draft.metrics)):
        if not is_finite(value):
            raise InvalidInputError(
                f"{draft.table}: {name} hold a number that JSON has no word for", hint="give it as text", field=name
            )
    given = draft.actions if draft.txn is None else [*draft.actions, draft.txn]
    actions = [_checked(draft.table, place, action) for place, action in enumerate(given)]
    if problem := commit_problem(actions):
        raise InvalidInputError(f"{draft.table}: {problem}", hint="give each of them once", field="actions")
    if draft.create_at is not None and (missing := _missing(actions)):
        raise InvalidInputError(
            f"{draft.table}: a table cannot begin without a {missing} action", hint="add it", field="actions"
        )
    actions = in_order(actions)
    return Prepared(draft, actions, encode_commit(actions))


def in_order(actions: Sequence[Action]) -> list[Action]:
    """The one order in which the actions of a commit made here are written."""
    return sorted(actions, key=lambda action: _ORDER.get(type(action), len(_ORDER)))


def check_text(value: str | None, field: str) -> None:
    """Refuse what no database could keep as a key. None is no value, and fine."""
    if value is None:
        return
    try:
        size = len(value.encode()) if isinstance(value, str) else 0  # pyright: ignore[reportUnnecessaryIsInstance]
    except UnicodeEncodeError:
        size = 0
    if size == 0 or "\0" in value:
        raise InvalidInputError(
            f"the {field} {value!r:.100} is not text, or empty", hint="give text in valid Unicode", field=field
        )
    if size > MAX_KEY:
        raise InvalidInputError(
            f"the {field} {value!r:.100} is longer than {MAX_KEY} bytes", hint="give a shorter one", field=field
        )


def _checked(table: str, place: int, action: Action) -> Action:
    """A copy of an action whose fields are what their types say: the caller may have built it from anything."""

    def refuse(why: str, hint: str) -> InvalidInputError:
        return InvalidInputError(f"{table}: action {place}: {why}", hint=hint, field=f"actions[{place}]")

    kind: type[Any] = type(action)
    if kind not in _KINDS:
        raise refuse(f"a {kind.__name__} is no action", "give actions from deltasql.protocol.actions")
    if kind is CommitInfo:
        raise refuse("commitInfo is written by the ledger", "leave it out of the actions")
    try:
        copied: Action = msgspec.convert(msgspec.to_builtins(action), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise refuse(str(error), "give each field a value of its type") from error
    if isinstance(copied, UnknownAction) and (copied.name in ACTION_TYPES or copied.body is None):
        raise refuse(f"{copied.name} cannot be given as an unknown action", "use its own class, with a body")
    if problem := number_problem(copied):
        raise refuse(problem, "give numbers that Delta can hold")
    if not is_finite(copied.body if isinstance(copied, UnknownAction) else getattr(copied, "extra", {})):
        raise refuse("it holds a number that JSON has no word for", "give it as text")
    if problem := text_problem(copied):
        raise refuse(problem, "leave such characters out, and keep names short")
    return copied


def number_problem(action: Action | DeletionVector) -> str | None:
    """Which integer is too large for the protocol, in words, or None."""
    for name in _INTEGERS[type(action)]:
        value: int | None = getattr(action, name)
        limit = 2**31 if name in _NARROW else 2**63
        if value is not None and not -limit <= value < limit:
            return f"{name} {value} does not fit into {limit.bit_length()} bits"
    if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
        return number_problem(action.deletion_vector)
    return None


def is_finite(value: object) -> bool:
    """Whether no NaN or infinity is in there, which JSON would turn into null. However deep it is nested."""
    waiting: list[object] = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, float) and not isfinite(found):
            return False
        if isinstance(found, Mapping):
            waiting.extend(cast("Mapping[str, object]", found).values())
        elif isinstance(found, list | tuple):
            waiting.extend(cast("Sequence[object]", found))
    return True


def text_problem(action: Action | DeletionVector) -> str | None:
    """Which text a database cannot hold, in words, or None."""
    for name in _TEXTS[type(action)]:
        value: str | None = getattr(action, name)
        if value is None:
            continue
        if "\0" in value:
            return f"{name} has a NUL character in it"
        try:
            size = len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError:
            return f"{name} is not valid Unicode"
        if name in _KEYS and size > MAX_KEY:
            return f"{name} is longer than {MAX_KEY} bytes"
    if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
        return text_problem(action.deletion_vector)
    return None


def _missing(actions: Sequence[Action]) -> str | None:
    kinds = {type(action) for action in actions}
    return next((name for name in ("metaData", "protocol") if ACTION_TYPES[name] not in kinds), None)


def replayed(found: Sequence[Committed | None]) -> tuple[Committed, ...] | None:
    """What an earlier try of the same transaction came to, where its answer was lost.

    `found` holds, for each draft, the commit that its token stands for.
    """
    known = tuple(committed for committed in found if committed is not None)
    if not known:
        return None
    groups = {committed.group_id for committed in known}
    if len(known) != len(found) or len(groups) > 1 or (len(known) > 1 and None in groups):
        raise InvalidInputError(
            "the token, or the application's version, was used before, for other tables",
            hint="use a new one for a new transaction",
            field="token",
        )
    return known


def commit_info(
    draft: CommitDraft,
    *,
    timestamp: int,
    in_commit_timestamps: bool,
    txn_id: str,
    group: Mapping[str, int] | None,
) -> CommitInfo:
    """What the first line of a commit says. `group` names each table of a larger transaction and its new version."""
    fields: dict[str, Any] = {"inCommitTimestamp": timestamp} if in_commit_timestamps else {}
    fields["timestamp"] = timestamp
    fields["operation"] = draft.operation
    fields["operationParameters"] = dict(draft.parameters)
    if draft.read_version is not None:
        fields["readVersion"] = draft.read_version
    fields["isolationLevel"] = draft.isolation
    blind = draft.reads.blind and not draft.looked
    fields["isBlindAppend"] = blind and not any(isinstance(action, RemoveFile | Metadata) for action in draft.actions)
    if draft.metrics:
        fields["operationMetrics"] = dict(draft.metrics)
    if draft.user_metadata is not None:
        fields["userMetadata"] = draft.user_metadata
    if group:
        fields["tags"] = {"deltasql.groupId": txn_id, "deltasql.participants": dump_json(group).decode()}
    fields["engineInfo"] = ENGINE_INFO
    fields["txnId"] = txn_id
    return CommitInfo(fields)


def record_history(commits: Sequence[AdoptedCommit], base: AdoptedBase | None) -> list[tuple[RecordedCommit, int]]:
    """A history found in a log, as a ledger records it: each commit, and the size of its file."""
    found: list[AdoptedCommit | AdoptedBase] = [*([] if base is None else [base]), *commits]
    if problem := _history_problem(found, whole=base is None):
        raise InvalidInputError(
            f"this is no history: {problem}", hint="give every version, oldest first", field="commits"
        )
    for version in found:
        for action in version.actions:
            if problem := number_problem(action) or text_problem(action):
                raise MalformedLogError(
                    f"version {version.version}: {problem}",
                    hint="the commit breaks the protocol; ask its writer",
                    field="commits",
                )
    return [(_record_found(version), len(version.data or b"")) for version in found]


def _history_problem(found: Sequence[AdoptedCommit | AdoptedBase], *, whole: bool) -> str | None:
    if not found:
        return "there is no version"
    if whole and found[0].version != 0:
        return f"it begins with version {found[0].version} and no checkpoint"
    if missing := _missing(found[0].actions):
        return f"its first version has no {missing}"
    for before, after in pairwise(found):
        if after.version != before.version + 1:
            return f"version {after.version} follows {before.version}"
        if after.timestamp <= before.timestamp:
            return f"version {after.version} is not later than {before.version}"
    return None


def _record_found(found: AdoptedCommit | AdoptedBase) -> RecordedCommit:
    # Whatever a checkpoint holds, it does not encode to the commit file of its version.
    canonical = isinstance(found, AdoptedCommit) and encode_commit(found.actions) == found.data
    return RecordedCommit(
        version=found.version,
        timestamp=found.timestamp,
        sha256="" if found.data is None else sha256(found.data),
        encoder=ENCODER_VERSION,
        origin="adopted" if isinstance(found, AdoptedCommit) else "checkpoint",
        actions=found.actions,
        found_bytes=None if canonical else found.data,
    )
