"""URLs of folders: how they are written, and the store behind one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote_to_bytes

from deltasql.errors import ConfigError, InvalidInputError
from deltasql.storage.base import ObjectStore
from deltasql.storage.keys import URL_SAFE
from deltasql.storage.local import LocalFiles, file_url
from deltasql.storage.memory import MemoryStore

_SCHEMES = ("file", "memory")
_KNOWN = "file:///folder, a local path, memory://name"
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_MEMORY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_memory: dict[str, MemoryStore] = {}
_memory_lock = Lock()


def open_store(url: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of the folder at `url`. Nothing is touched: the folder is made at the first put."""
    url = normalise_url(url)
    if options:
        names = ", ".join(sorted(options))
        raise ConfigError(
            f"unknown storage options: {names}",
            hint="local files and memory take no options; remove them",
            field="storage_options",
        )
    if (path := local_path(url)) is not None:
        return LocalFiles(path)
    name, *folders = _decoded(url.removeprefix("memory://"))
    with _memory_lock:
        store = _memory.setdefault(name, MemoryStore(f"memory://{name}"))
    return store.at("/".join(folders)) if folders else store


def normalise_url(url: str, *, field: str = "root") -> str:
    """The one way to write this folder: absolute, percent-encoded, without a trailing slash.

    Nothing of the input but its scheme is repeated in an error: a URL may hold credentials. `field` is what the
    caller calls it.
    """
    try:
        return _normalise(url)
    except ConfigError as error:
        raise ConfigError(error.message, hint=error.hint, field=field) from None


def _normalise(url: str) -> str:
    if not url.strip():
        raise _bad("the place is empty")
    if "\0" in url:
        raise _bad("the place has a NUL character")
    found = _URL.fullmatch(url)
    if found is None:
        return file_url(_absolute(url))
    scheme, rest = found["scheme"].lower(), found["rest"]
    if scheme not in _SCHEMES:
        # Without the slashes the scheme may be anything, also half of a secret.
        raise _bad(f"the scheme {scheme!r} is not known" if rest.startswith("//") else "this is not a known URL")
    if "?" in rest or "#" in rest:
        raise _bad("a URL of a folder has no query and no fragment", hint="write ? as %3F and # as %23")
    if scheme == "file":
        return _normalise_file(rest)
    return _normalise_memory(rest)


def join_url(url: str, *parts: str) -> str:
    """The URL of a folder below `url`; each part is one folder, percent-encoded."""
    for part in parts:
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            raise InvalidInputError(
                f"{part!r} cannot be the name of a folder",
                hint="a name is not empty, not '.' or '..', and has no '/' and no NUL",
                field="name",
            )
    try:
        return "/".join([url.rstrip("/"), *(quote(part, safe=URL_SAFE) for part in parts)])
    except UnicodeEncodeError as error:
        raise InvalidInputError("a name is not valid Unicode", hint="remove lone surrogates", field="name") from error


def local_path(url: str) -> Path | None:
    """The local folder at `url`, or None where it is elsewhere."""
    found = _URL.fullmatch(url)
    if found is not None and found["scheme"].lower() != "file":
        return None
    return Path(os.fsdecode(unquote_to_bytes(normalise_url(url).removeprefix("file://"))))


def _normalise_file(rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if "@" in host:
            raise _bad("a URL must not hold credentials", hint="pass them as storage options")
        if host.lower() not in {"", "localhost"} or not slash:
            raise _bad("a file URL has no host and an absolute path", hint="write file:///folder, with three slashes")
    elif rest.startswith("/"):  # as Hadoop writes it
        path = rest[1:]
    else:
        raise _bad("a file URL must be absolute", hint="write file:///folder, with three slashes")
    names = _decoded(path)
    if not names:
        raise _bad("the root of the file system cannot be used", hint="name a folder below it")
    return file_url(Path("/", *names))


def _normalise_memory(rest: str) -> str:
    name, _, path = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not _MEMORY_NAME.fullmatch(name):
        raise _bad("a memory URL needs a name of letters, digits, '.', '_' or '-'", hint="write memory://name")
    try:
        return join_url(f"memory://{name}", *_decoded(path))
    except InvalidInputError:
        raise _bad("the place is not valid Unicode") from None


def _decoded(path: str) -> list[str]:
    """The folders of a path in a URL, unescaped; doubled slashes count once."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _bad("the place is not valid Unicode") from None
    names = [os.fsdecode(unquote_to_bytes(name)) for name in raw.split(b"/") if name]
    if any(name in {".", ".."} or "/" in name or "\0" in name for name in names):
        raise _bad("a URL must not hold '.', '..', an escaped slash or NUL", hint="write the path out")
    return names


def _absolute(path: str) -> Path:
    if path.startswith("~"):
        raise _bad("'~' is not expanded", hint="write the home folder out, or ./~ for a folder of that name")
    try:
        os.fsencode(path)
        absolute = os.path.abspath(path)  # noqa: PTH100 (resolve() would follow symbolic links)
    except UnicodeEncodeError:
        raise _bad("the place is not valid Unicode") from None
    except OSError as error:
        raise _bad("the working folder is gone", hint="give an absolute path") from error
    absolute = "/" + absolute.lstrip("/")  # POSIX lets two slashes at the start stand
    if absolute == "/":
        raise _bad("the root of the file system cannot be used", hint="name a folder below it")
    return Path(absolute)


def _bad(problem: str, *, hint: str = f"use one of: {_KNOWN}") -> ConfigError:
    return ConfigError(problem, hint=hint, field="root")
