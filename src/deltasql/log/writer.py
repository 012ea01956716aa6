"""A table's log on an object store, as the publisher writes it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from deltasql.errors import InvalidInputError, MalformedLogError, ObjectNotFoundError, StorageUnavailableError
from deltasql.failpoints import failpoint
from deltasql.log.checkpoint import ClassicCheckpoint, write_classic
from deltasql.log.segment import list_log
from deltasql.log.target import CheckpointState, CheckpointWritten, ForeignFound, Published
from deltasql.protocol.jsonlog import dump_json, load_object
from deltasql.protocol.paths import LAST_CHECKPOINT, LOG_DIR, checkpoint_name, commit_name
from deltasql.storage.base import ObjectStore

# Beside the log, hidden from readers by its underscore, and never emptied by deltasql.
QUARANTINE_DIR = "_deltasql_quarantine"

_LAST_CHECKPOINT = f"{LOG_DIR}/{LAST_CHECKPOINT}"


class DeltaLog:
    """The `MirrorTarget` for a table folder on an object store: `_delta_log/` below `store.url`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def url(self) -> str:
        return self._store.url

    # -- commits ----------------------------------------------------------------------------------------------------

    def publish(self, version: int, data: bytes, *, timestamp: int) -> Published | ForeignFound:
        """Put a commit where there is none; what stands there already is compared, never replaced.

        A store whose answer was lost is asked what it holds. Where it holds nothing the error is raised: whether
        to try again is the caller's to decide, and trying again is safe.
        """
        failpoint("before_put")
        unknown: StorageUnavailableError | None = None
        try:
            created = self._store.put_if_absent(_commit_key(version), data, modified=timestamp)
        except StorageUnavailableError as error:
            created, unknown = False, error
        failpoint("after_put")
        if created:
            return Published(version=version, created=True)
        found = self.read_commit(version)
        if found is None:
            # Stores answer "exists" to a put that races another one, which may then have failed.
            raise unknown or StorageUnavailableError(
                f"{_commit_key(version)!r} was refused as existing, yet it does not exist", hint="try again"
            )
        if found != data:
            return ForeignFound(version=version, found=found)
        return Published(version=version, created=unknown is not None)

    def sync(self, versions: Sequence[int]) -> None:
        self._store.sync([_commit_key(version) for version in versions])

    def read_commit(self, version: int) -> bytes | None:
        try:
            return self._store.get(_commit_key(version))
        except ObjectNotFoundError:
            return None

    def versions(self, start: int = 0) -> list[int]:
        return [file.version for file, _ in list_log(self._store, start=start) if file.kind == "commit"]

    def replace_commit(self, version: int, data: bytes) -> None:
        """Put a commit whatever stands there. Only for rebuilding a log in place, after `quarantine` of what differs.

        A published commit is never replaced otherwise: readers may have taken it in.
        """
        key = _commit_key(version)
        self._store.put(key, data)
        self._store.sync([key])

    def quarantine(self, key: str) -> str:
        """Move a file of the log out of readers' sight, under a name of its own, and return its new key."""
        name = key.removeprefix(f"{LOG_DIR}/")
        if name == key or not name:
            raise InvalidInputError(
                f"{key!r} is no file of the log", hint=f"give a key that starts with {LOG_DIR}/", field="key"
            )
        target = f"{QUARANTINE_DIR}/{uuid4().hex}/{name}"
        self._store.rename(key, target)
        self._store.sync([target])
        return target

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def write_checkpoint(self, state: CheckpointState) -> CheckpointWritten:
        """Write a classic checkpoint, then point `_last_checkpoint` at it, never backwards.

        A checkpoint of the same version is replaced: both hold the same state. A crash before the pointer moved
        leaves a checkpoint that readers find by listing.
        """
        file = write_classic(state)
        key = f"{LOG_DIR}/{checkpoint_name(state.version)}"
        self._store.put(key, file.data)
        self._store.sync([key])
        failpoint("after_checkpoint")
        present = self.last_checkpoint()
        # At the same version too: the old pointer describes the file just replaced.
        if present is None or present <= state.version:
            self._store.put(_LAST_CHECKPOINT, _pointer(state.version, file))
            self._store.sync([_LAST_CHECKPOINT])
        return CheckpointWritten(version=state.version, actions=file.actions, bytes=len(file.data), files=file.files)

    def last_checkpoint(self) -> int | None:
        try:
            version = load_object(self._store.get(_LAST_CHECKPOINT), source=_LAST_CHECKPOINT).get("version")
        except (ObjectNotFoundError, MalformedLogError):
            return None
        return version if type(version) is int and version >= 0 else None


def _commit_key(version: int) -> str:
    return f"{LOG_DIR}/{commit_name(version)}"


def _pointer(version: int, file: ClassicCheckpoint) -> bytes:
    return dump_json(
        {"version": version, "size": file.actions, "sizeInBytes": len(file.data), "numOfAddFiles": file.files}
    )
