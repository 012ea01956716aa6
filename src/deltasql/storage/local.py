"""Objects as files below a local folder.

Plain file calls rather than obstore, whose local store was tried and cannot do four things that are needed here:
it refuses keys with control characters and keys ending in `#1`; one foreign file with a control character in its
name makes every listing above it fail; it names a file before its content is on the disk, so that a loss of power
may leave an empty commit; and its errors have no codes. It was no faster.
"""

# Paths are bytes here, which pathlib does not know: keys are UTF-8 on disk whatever the locale says.
# ruff: noqa: PTH102, PTH105, PTH108, PTH112, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from deltasql.errors import InvalidInputError, ObjectNotFoundError, StorageError, StorageUnavailableError
from deltasql.storage.base import ObjectMeta
from deltasql.storage.failures import classify
from deltasql.storage.keys import NOT_FOUND_HINT, URL_SAFE, check_key, check_prefix, is_temporary, temporary_name

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_ABSENT = (FileNotFoundError, NotADirectoryError)  # the second: a part of the key is itself a file


def file_url(path: Path) -> str:
    """The URL of an absolute local path, written in the one way that deltasql writes it."""
    return "file://" + quote(os.fsencode(path), safe="/" + URL_SAFE)


class LocalFiles:
    """An `ObjectStore` on a local folder. The folder is made at the first put.

    A key is the name on disk, byte for byte in UTF-8. Names that are not UTF-8 are no keys and are not listed;
    nor is what lies behind a symbolic link to a folder, so that a clean-up never reaches outside.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_absolute():
            raise InvalidInputError(f"{str(root)!r} is not absolute", hint="give an absolute path", field="root")
        self._url = file_url(root)
        self._root = os.fsencode(root)

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
                raise FileNotFoundError
            with open(path, "rb") as file:
                return file.read()
        except _ABSENT as error:
            raise ObjectNotFoundError(f"{key!r} does not exist", hint=NOT_FOUND_HINT) from error
        except OSError as error:
            raise classify(error, key) from error

    def head(self, key: str) -> ObjectMeta | None:
        try:
            return _meta(key, self._path(key))
        except OSError as error:
            raise classify(error, key) from error

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            temporary = self._write(path, data)
            try:
                _remove_checksum(path)
                os.replace(temporary, path)
            finally:
                _discard(temporary)
        except FileNotFoundError as error:
            raise _vanished(key) from error
        except OSError as error:
            raise classify(error, key) from error

    def put_if_absent(self, key: str, data: bytes, *, modified: int | None = None) -> bool:
        path = self._path(key)
        try:
            if os.path.lexists(path):
                _refuse_folder(path)
                return False
            temporary = self._write(path, data, modified)
            try:
                _remove_checksum(path)
                os.link(temporary, path)
            except FileExistsError:
                _refuse_folder(path)
                return False
            finally:
                _discard(temporary)
        except FileNotFoundError as error:
            raise _vanished(key) from error
        except OSError as error:
            raise classify(error, key) from error
        return True

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        folder, slash, _ = check_prefix(prefix).rpartition("/")
        return self._walk(folder + slash, prefix, start_after or "")

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            _remove_checksum(path)
            os.unlink(path)
        except (*_ABSENT, IsADirectoryError):
            return
        except OSError as error:
            raise classify(error, key) from error

    def rename(self, source: str, target: str) -> None:
        old, new = self._path(source), self._path(target)
        try:
            if _meta(source, old) is None:
                raise FileNotFoundError
            if os.path.lexists(new):
                raise FileExistsError
            _make_folder(os.path.dirname(new))
            _remove_checksum(new)
            os.link(old, new)  # unlike a rename, it never replaces
            _remove_checksum(old)
            os.unlink(old)
        except FileExistsError as error:
            raise StorageError(f"{target!r} exists already", hint="choose another target") from error
        except OSError as error:
            raise classify(error, source) from error

    def sync(self, keys: Sequence[str]) -> None:
        folders: set[bytes] = set()
        for key in keys:
            path = self._path(key)
            try:
                _fsync(path)
            except OSError as error:
                raise classify(error, key) from error
            while len(path) > len(self._root):
                path = os.path.dirname(path)
                folders.add(path)
        for folder in sorted(folders, reverse=True):
            try:
                _fsync(folder)
            except OSError as error:
                raise classify(error, os.fsdecode(folder)) from error

    def sweep(self, prefix: str = "", *, before: int) -> list[str]:
        """Remove temporary files that writers left when they were killed, and return their keys.

        Only those last changed before `before` (milliseconds since the epoch): a younger one may still be
        written. An hour ago is a good choice.
        """
        folder, slash, _ = check_prefix(prefix).rpartition("/")
        removed: list[str] = []
        for meta in self._walk(folder + slash, prefix, "", temporaries=True):
            path = self._join(meta.key)
            try:
                # Not the modification time: a put may set that to the past while it is still writing.
                if os.stat(path).st_ctime_ns // 1_000_000 >= before:
                    continue
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise classify(error, meta.key) from error
            removed.append(meta.key)
        return removed

    def _path(self, key: str) -> bytes:
        return self._join(check_key(key))

    def _join(self, key: str) -> bytes:
        return os.path.join(self._root, key.encode())

    def _write(self, path: bytes, data: bytes, modified: int | None = None) -> bytes:
        """Write a temporary file beside `path`, wholly on the disk before it can get its name."""
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, temporary_name().encode())
        try:
            descriptor = os.open(temporary, _NEW_FILE, 0o666)
        except FileNotFoundError:
            _make_folder(folder)
            descriptor = os.open(temporary, _NEW_FILE, 0o666)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if modified is not None:
                    os.utime(file.fileno(), ns=(modified * 1_000_000, modified * 1_000_000))
                os.fsync(file.fileno())
        except BaseException:
            _discard(temporary)
            raise
        return temporary

    def _walk(self, start: str, prefix: str, after: str, *, temporaries: bool = False) -> Iterator[ObjectMeta]:
        """Files in the order of their keys. A folder sorts by its name with the slash, as its keys do."""
        pending = [start]
        while pending:
            key = pending.pop()
            if key and not key.endswith("/"):
                try:
                    meta = _meta(key, self._join(key))
                except OSError as error:
                    raise classify(error, key) from error
                if meta is not None:
                    yield meta
                continue
            inside = [
                name
                for name in self._names(key)
                if name.startswith(prefix)
                if name > after or (name.endswith("/") and after.startswith(name))
                if name.endswith("/") or is_temporary(name.rpartition("/")[2]) == temporaries
            ]
            pending.extend(sorted(inside, reverse=True))

    def _names(self, folder: str) -> Iterator[str]:
        try:
            with os.scandir(self._join(folder)) as entries:
                for entry in entries:
                    with suppress(UnicodeDecodeError):
                        name = folder + entry.name.decode()
                        yield name + "/" if entry.is_dir(follow_symlinks=False) else name
        except _ABSENT:
            return
        except OSError as error:
            raise classify(error, folder) from error


def _meta(key: str, path: bytes) -> ObjectMeta | None:
    try:
        found = os.stat(path)
    except _ABSENT:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return ObjectMeta(
        key=key,
        size=found.st_size,
        modified=found.st_mtime_ns // 1_000_000,
        etag=f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}",
    )


def _refuse_folder(path: bytes) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _remove_checksum(path: bytes) -> None:
    """Remove Hadoop's `.name.crc`: beside other content, Spark would call the file corrupt."""
    folder, name = os.path.split(path)
    try:
        os.unlink(os.path.join(folder, b"." + name + b".crc"))
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENAMETOOLONG}:
            raise


def _discard(temporary: bytes) -> None:
    with suppress(OSError):  # gone already, or left for `sweep`
        os.unlink(temporary)


def _make_folder(folder: bytes) -> None:
    """Make a folder and those above it, each entered on the disk before anything is put inside."""
    missing: list[bytes] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each)
            _fsync(os.path.dirname(each))


def _fsync(path: bytes) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _vanished(key: str) -> StorageUnavailableError:
    return StorageUnavailableError(
        f"{key!r}: its folder or its temporary file was removed during the write", hint="try again"
    )
