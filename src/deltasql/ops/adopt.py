"""Adopt: from a log to the ledger. The one verb that walks this way."""

from __future__ import annotations

from collections.abc import Sequence

from deltasql.errors import MalformedLogError, UnsupportedError
from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit, TableEntry
from deltasql.ledger.registry import check_name
from deltasql.log.reader import read_checkpoint, read_commits
from deltasql.log.segment import CheckpointFiles, Segment, list_segment
from deltasql.ops.services import Services
from deltasql.protocol.actions import Action, CommitInfo
from deltasql.protocol.features import FEATURE_READER, FEATURE_WRITER
from deltasql.protocol.jsonlog import decode_commit
from deltasql.protocol.paths import commit_name
from deltasql.protocol.replay import Replay, commit_problem
from deltasql.protocol.schema import parse_schema
from deltasql.storage.base import ObjectStore


def adopt(services: Services, location: str, name: str) -> TableEntry:
    """Take in the table at `location` with its whole readable history. Its files and its log stay as they are."""
    check_name(name)
    store = services.store_at(location)
    segment = list_segment(store)
    base = None if segment.base is None else _base(store, segment, segment.base)
    first = 0 if base is None else base.version + 1
    commits = _commits(store, segment, first, 0 if base is None else base.timestamp + 1)
    _check_state(location, base, commits)
    newest = max((checkpoint.version for checkpoint in segment.checkpoints), default=None)
    return services.writer.adopt(name, location, commits, base, newest)


def _base(store: ObjectStore, segment: Segment, checkpoint: CheckpointFiles) -> AdoptedBase:
    found = segment.commits.get(checkpoint.version)
    data = None if found is None else store.get(found.key)
    timestamp = checkpoint.files[0].modified if found is None else found.modified
    if data is not None:
        timestamp = _in_commit_timestamp(decode_commit(data, source=commit_name(checkpoint.version))) or timestamp
    return AdoptedBase(
        version=checkpoint.version,
        actions=read_checkpoint(store, checkpoint),
        timestamp=timestamp,
        data=data,
    )


def _commits(store: ObjectStore, segment: Segment, first: int, not_before: int) -> list[AdoptedCommit]:
    commits: list[AdoptedCommit] = []
    for version, data in read_commits(store, segment, first, segment.head):
        source = commit_name(version)
        actions = decode_commit(data, source=source)
        if problem := commit_problem(actions):
            raise MalformedLogError(
                f"{source}: {problem}", hint="the commit breaks the protocol; ask its writer", field=source
            )
        # Without in-commit timestamps a version counts as made when its file was, but never before its predecessor.
        timestamp = max(_in_commit_timestamp(actions) or segment.commits[version].modified, not_before)
        commits.append(AdoptedCommit(version=version, data=data, actions=actions, timestamp=timestamp))
        not_before = timestamp + 1
    return commits


def _in_commit_timestamp(actions: Sequence[Action]) -> int | None:
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    timestamp = None if info is None else info.in_commit_timestamp
    return timestamp if isinstance(timestamp, int) else None


def _check_state(location: str, base: AdoptedBase | None, commits: Sequence[AdoptedCommit]) -> None:
    replay = Replay()
    if base is not None:
        replay.apply(base.actions)
    for commit in commits:
        replay.apply(commit.actions)
        if commit.version == 0:
            replay.require(f"{location}, version 0")
    protocol, metadata = replay.require(location)
    if protocol.min_reader_version > FEATURE_READER or protocol.min_writer_version > FEATURE_WRITER:
        raise UnsupportedError(
            f"{location} needs protocol ({protocol.min_reader_version}, {protocol.min_writer_version}); "
            f"known are versions up to ({FEATURE_READER}, {FEATURE_WRITER})",
            hint="use a newer release of deltasql",
            field="location",
        )
    parse_schema(metadata.schema_string)
