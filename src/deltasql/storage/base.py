"""What deltasql asks of an object store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True):
    """An object as a listing shows it; `modified` is in milliseconds since the epoch."""

    key: str
    size: int
    modified: int
    etag: str | None = None


class ObjectStore(Protocol):
    """A folder of objects: everything below one URL.

    Keys are relative to that URL, separated by `/`, and not percent-encoded: a key names the object as it is
    stored. Every failure is a `StorageError`; where an answer never came it is `StorageUnavailableError`, and the
    caller must look before it believes anything.
    """

    @property
    def url(self) -> str:
        """The URL of the folder, without a trailing slash."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object; `ObjectNotFoundError` where there is none."""
        ...

    def head(self, key: str) -> ObjectMeta | None:
        """What is known of an object without its content; None where there is none."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write or replace an object at once: readers see the old content or the new, never a part."""
        ...

    def put_if_absent(self, key: str, data: bytes, *, modified: int | None = None) -> bool:
        """Write an object where there is none. True: created; False: one was there, and it is untouched.

        `modified` asks the store to show this time (milliseconds) as the object's own, where it can.
        """
        ...

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Every object whose key starts with `prefix` (down through all folders), ordered by key."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move an object, where the target does not exist; `StorageError` where it does."""
        ...

    def sync(self, keys: Sequence[str]) -> None:
        """Return once these objects would survive the loss of power. Nothing to do where a put already promises it."""
        ...
