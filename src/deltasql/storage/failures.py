"""What a failure of a store means: the one place that reads its codes and its texts."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from obstore import exceptions as obstore_errors

from deltasql.errors import (
    ObjectNotFoundError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
)
from deltasql.storage.keys import NOT_FOUND_HINT

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_PASSING = {
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
_LOOK = "the store's own words above say why; put that right, then try again"
_HINTS = {
    errno.ENOTDIR: "a part of this path is a file; choose another root, or move that file away",
    errno.EISDIR: "a folder has this name; choose another root, or move that folder away",
    errno.ENAMETOOLONG: "shorten the table name or the partition values: the file system cannot hold this name",
    errno.EIO: "check the disk: what was written last may be lost",
}
# Of these 409 is an exception: another request was under way, and nothing is known of its end.
_REFUSED = (
    obstore_errors.AlreadyExistsError,
    obstore_errors.InvalidPathError,
    obstore_errors.NotSupportedError,
    obstore_errors.UnknownConfigurationKeyError,
)
_STATUS = re.compile(r"non-2xx status code: (\d{3})")


def classify(error: BaseException, key: str) -> StorageError:
    """The deltasql error for a failure of a file call or of obstore, about the object `key`.

    What cannot be recognised of a remote store is *unknown*, and so `StorageUnavailableError`: it may have
    happened or not.
    """
    if isinstance(error, FileNotFoundError):  # obstore raises it too, without an errno
        return ObjectNotFoundError(f"{key!r} does not exist", hint=NOT_FOUND_HINT)
    if isinstance(error, OSError):
        return _from_errno(error, key)
    if isinstance(error, obstore_errors.BaseError):
        return _from_obstore(error, key)
    return StorageError(f"{key!r}: {type(error).__name__}: {error}", hint=_LOOK)


def http_status(error: obstore_errors.BaseError) -> int | None:
    """The HTTP status behind an error of obstore, which gives it only in its text."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _from_errno(error: OSError, key: str) -> StorageError:
    code = error.errno or 0
    message = f"{key!r}: {os.strerror(code)}"
    if code in _DENIED:
        return StoragePermissionError(message, hint=f"give this process the right to read and write {_folder(error)}")
    if code in _FULL:
        return StorageFullError(message, hint="make room on the disk, or raise the quota")
    if code in _PASSING:
        return StorageUnavailableError(message, hint="try again")
    return StorageError(message, hint=_HINTS.get(code, _LOOK))


def _folder(error: OSError) -> str:
    path: object = error.filename
    if not isinstance(path, str | bytes):
        return "the folder of this object"
    # Path.is_dir() would raise where this process may not look.
    is_folder = os.path.isdir(path)  # noqa: PTH112
    found = Path(os.fsdecode(path))
    return repr(str(found if is_folder else found.parent))


def _from_obstore(error: obstore_errors.BaseError, key: str) -> StorageError:
    # The text of obstore is not passed on: it holds whole requests, and those may hold signatures.
    status = http_status(error)
    message = f"{key!r}: the store answered {status or type(error).__name__}"
    if isinstance(error, obstore_errors.PermissionDeniedError | obstore_errors.UnauthenticatedError):
        status = status or 403
    if status in {401, 403}:
        return StoragePermissionError(message, hint="check the credentials and what they may do in this bucket")
    if status == 404:
        return ObjectNotFoundError(message, hint="check that the bucket exists")
    if status == 507:
        return StorageFullError(message, hint="make room in the store, or raise the quota")
    if status == 400 or (status != 409 and isinstance(error, _REFUSED)):
        return StorageError(message)
    return StorageUnavailableError(message, hint="look whether it happened, then try again")
