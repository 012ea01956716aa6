"""What a `_delta_log` holds, from one listing, and from where it can be read.

`_last_checkpoint` is a hint that may be old, cut or copied from elsewhere: the listing alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from deltasql.errors import MalformedLogError, TableNotFoundError
from deltasql.protocol.paths import LOG_DIR, LogFile, parse_log_name
from deltasql.storage.base import ObjectMeta, ObjectStore

CheckpointKind = Literal["classic", "multipart", "v2"]

# Where one version has several, the first of these is used: it is one file, and every reader knows it.
_PREFERENCE: tuple[CheckpointKind, ...] = ("classic", "v2", "multipart")

# A message names this many gaps; a log with more has lost more than a file.
_GAPS_SHOWN = 8


class CheckpointFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A complete checkpoint: all its files, sidecars aside."""

    version: int
    kind: CheckpointKind
    files: tuple[ObjectMeta, ...]


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A log whose newest version, `head`, can be read.

    `base` is where its history starts: the oldest checkpoint from which commits lead to `head` without a gap, or
    None where they do so from version 0. `checkpoints` ascend, one a version.
    """

    url: str
    commits: Mapping[int, ObjectMeta]
    checkpoints: tuple[CheckpointFiles, ...]
    base: CheckpointFiles | None
    head: int

    @property
    def first(self) -> int:
        """The oldest version that can be read."""
        return 0 if self.base is None else self.base.version

    def checkpoint_for(self, version: int) -> CheckpointFiles | None:
        """The newest checkpoint from which `version` is reached; None where its replay starts at commit 0."""
        usable = [found for found in self.checkpoints if self.first <= found.version <= version]
        return usable[-1] if usable else None


def list_segment(store: ObjectStore) -> Segment:
    """List a log and find from where it can be read.

    `TableNotFoundError` where there is no log, `MalformedLogError` where versions are missing from it.
    """
    commits: dict[int, ObjectMeta] = {}
    candidates: list[tuple[LogFile, ObjectMeta]] = []
    for file, meta in list_log(store):
        if file.kind == "commit":
            commits[file.version] = meta
        elif file.kind == "checkpoint":
            candidates.append((file, meta))
    checkpoints = _complete(candidates)
    if not commits and not checkpoints:
        raise TableNotFoundError(
            f"{store.url} is no Delta table: its {LOG_DIR}/ holds no commit and no complete checkpoint",
            hint=f"give the folder that holds {LOG_DIR}/",
            field="location",
        )
    head = max([*commits, *(found.version for found in checkpoints)])
    base = _base(store.url, commits, checkpoints, head)
    return Segment(url=store.url, commits=commits, checkpoints=checkpoints, base=base, head=head)


def list_log(store: ObjectStore, *, start: int = 0) -> Iterator[tuple[LogFile, ObjectMeta]]:
    """The files of the log that belong to a version, from version `start` on, ordered by name."""
    prefix = f"{LOG_DIR}/"
    # The bare number sorts before every file of its version.
    for meta in store.list(prefix, start_after=f"{prefix}{max(start, 0):020}"):
        name = meta.key.removeprefix(prefix)
        if name > ":":
            return  # past the digits: only sub-folders and files without a version follow
        file = parse_log_name(name)
        if file is not None:
            yield file, meta


def _complete(candidates: Iterable[tuple[LogFile, ObjectMeta]]) -> tuple[CheckpointFiles, ...]:
    """The best checkpoint of each version, of those that lack no part."""
    found: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], list[ObjectMeta]] = {}
    for file, meta in candidates:
        if file.parts is not None:
            parts.setdefault((file.version, file.parts), []).append(meta)
        else:
            kind = "v2" if file.uuid else "classic"
            found.append(CheckpointFiles(version=file.version, kind=kind, files=(meta,)))
    for (version, count), metas in parts.items():
        if len(metas) == count:
            found.append(CheckpointFiles(version=version, kind="multipart", files=tuple(metas)))
    best: dict[int, CheckpointFiles] = {}
    for checkpoint in sorted(found, key=lambda each: (each.version, _PREFERENCE.index(each.kind))):
        best.setdefault(checkpoint.version, checkpoint)
    return tuple(best.values())


def _base(
    url: str, commits: Mapping[int, ObjectMeta], checkpoints: tuple[CheckpointFiles, ...], head: int
) -> CheckpointFiles | None:
    tail = head + 1
    while tail - 1 in commits:
        tail -= 1
    if tail == 0:
        return None
    for found in checkpoints:
        if found.version >= tail - 1:
            return found
    start = checkpoints[-1].version + 1 if checkpoints else 0
    raise MalformedLogError(
        f"{url}: {LOG_DIR}/ has no commit {_gaps(commits, start, tail)}, and no checkpoint stands in for it",
        hint="restore the missing files, or a checkpoint of a later version, from a backup",
        field="location",
    )


def _gaps(commits: Mapping[int, ObjectMeta], start: int, end: int) -> str:
    """The versions from `start` up to but not including `end` that have no commit: `1, 3-5`."""
    gaps: list[str] = []
    for present in [*sorted(version for version in commits if start <= version < end), end]:
        if present > start:
            gaps.append(f"{start}" if present == start + 1 else f"{start}-{present - 1}")
        start = present + 1
    return ", ".join(gaps[:_GAPS_SHOWN]) + (", …" if len(gaps) > _GAPS_SHOWN else "")
