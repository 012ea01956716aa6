"""Objects in memory: for tests, yours and ours, with failures on demand."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Literal
from urllib.parse import quote

import msgspec

from deltasql.errors import ObjectNotFoundError, StorageError, StorageUnavailableError
from deltasql.storage.base import ObjectMeta
from deltasql.storage.keys import NOT_FOUND_HINT, URL_SAFE, check_key, check_prefix

Operation = Literal["get", "head", "put", "put_if_absent", "list", "delete", "rename", "sync"]


class _Object(msgspec.Struct, frozen=True):
    data: bytes
    modified: int
    etag: str


class _Fault(msgspec.Struct):
    operation: Operation | None
    error: Exception
    skip: int
    after_success: bool


class _Contents:
    """What all views of one store share."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.objects: dict[str, _Object] = {}
        self.faults: list[_Fault] = []
        self.writes = 0

    def write(self, key: str, data: bytes, modified: int | None) -> None:
        self.writes += 1
        now = time.time_ns() // 1_000_000 if modified is None else modified
        self.objects[key] = _Object(data, now, str(self.writes))

    def due(self, operation: Operation) -> _Fault | None:
        """The fault planned for this call, which is then done with."""
        for fault in self.faults:
            if fault.operation in {None, operation}:
                if fault.skip == 0:
                    self.faults.remove(fault)
                    return fault
                fault.skip -= 1
        return None


class MemoryStore:
    """An `ObjectStore` in memory, safe to use from many threads.

    `fail_next` makes a coming call fail before it does anything. `lose_answer` lets one take effect and then
    fail, as a dropped connection does.
    """

    def __init__(self, url: str = "memory://store") -> None:
        self._url = url
        self._folder = ""
        self._contents = _Contents()

    def at(self, folder: str) -> MemoryStore:
        """The same store seen from a folder below: same objects, same planned failures."""
        view = MemoryStore(f"{self._url}/{quote(check_key(folder), safe='/' + URL_SAFE)}")
        view._folder = f"{self._folder}{folder}/"
        view._contents = self._contents
        return view

    def fail_next(self, operation: Operation | None, error: Exception, *, skip: int = 0) -> None:
        """Raise `error` in place of the next `operation` (None: any), once `skip` such calls have passed."""
        self._plan(_Fault(operation, error, skip, after_success=False))

    def lose_answer(self, operation: Operation | None, *, skip: int = 0) -> None:
        """Let the next `operation` take effect and then raise `StorageUnavailableError`."""
        error = StorageUnavailableError("the answer never came", hint="look whether it happened, then try again")
        self._plan(_Fault(operation, error, skip, after_success=True))

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        with self._call("get", key) as contents:
            return self._existing(contents, key).data

    def head(self, key: str) -> ObjectMeta | None:
        with self._call("head", key) as contents:
            found = contents.objects.get(self._folder + key)
            return _meta(key, found) if found else None

    def put(self, key: str, data: bytes) -> None:
        with self._call("put", key) as contents:
            contents.write(self._folder + key, data, None)

    def put_if_absent(self, key: str, data: bytes, *, modified: int | None = None) -> bool:
        with self._call("put_if_absent", key) as contents:
            if self._folder + key in contents.objects:
                return False
            contents.write(self._folder + key, data, modified)
            return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        check_prefix(prefix)
        with self._call("list") as contents:
            start = len(self._folder)
            found = [
                _meta(key[start:], each)
                for key, each in contents.objects.items()
                if key.startswith(self._folder + prefix) and (start_after is None or key[start:] > start_after)
            ]
        return iter(sorted(found, key=lambda meta: meta.key))

    def delete(self, key: str) -> None:
        with self._call("delete", key) as contents:
            contents.objects.pop(self._folder + key, None)

    def rename(self, source: str, target: str) -> None:
        with self._call("rename", source, target) as contents:
            self._existing(contents, source)
            if self._folder + target in contents.objects:
                raise StorageError(f"{target!r} exists already", hint="choose another target")
            contents.objects[self._folder + target] = contents.objects.pop(self._folder + source)

    def sync(self, keys: Sequence[str]) -> None:
        with self._call("sync", *keys) as contents:
            for key in keys:
                self._existing(contents, key)

    def _plan(self, fault: _Fault) -> None:
        with self._contents.lock:
            self._contents.faults.append(fault)

    @contextmanager
    def _call(self, operation: Operation, *keys: str) -> Generator[_Contents]:
        for key in keys:
            check_key(key)
        with self._contents.lock:
            fault = self._contents.due(operation)
            if fault and not fault.after_success:
                raise fault.error
            yield self._contents
            if fault:
                raise fault.error

    def _existing(self, contents: _Contents, key: str) -> _Object:
        found = contents.objects.get(self._folder + key)
        if found is None:
            raise ObjectNotFoundError(f"{key!r} does not exist", hint=NOT_FOUND_HINT)
        return found


def _meta(key: str, found: _Object) -> ObjectMeta:
    return ObjectMeta(key=key, size=len(found.data), modified=found.modified, etag=found.etag)
