"""What a key may be, the same on every store, and the names of temporary files."""

from __future__ import annotations

import re
from uuid import uuid4

from deltasql.errors import InvalidInputError

# What a path in a URL may hold unescaped (RFC 3986). Escaping less helps Hadoop, which does not unescape.
NOT_FOUND_HINT = "check the name; if it was there, find out what removed it: the store's own rules, or another process"

URL_SAFE = "!$&'()*+,;=:@~"

_TEMPORARY = re.compile(r"\.deltasql-[0-9a-f]{32}\.tmp")


def check_key(key: str) -> str:
    """The key itself, if it names one object below the folder of the store; else `InvalidInputError`."""
    _check(key, key.split("/"), field="key")
    if is_temporary(key.rpartition("/")[2]):
        raise InvalidInputError(
            f"key {key!r} has the form of a temporary file of deltasql", hint="choose another name", field="key"
        )
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself, if keys can start with it; the last part may be the beginning of a name."""
    _check(prefix, prefix.split("/")[:-1], field="prefix")
    return prefix


def temporary_name() -> str:
    """A name for a file still being written: hidden from Delta readers, and from listings here."""
    return f".deltasql-{uuid4().hex}.tmp"


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


def _check(text: str, names: list[str], *, field: str) -> None:
    if "\0" in text:
        problem = "has a NUL character"
    elif any(name in {"", ".", ".."} for name in names):
        problem = "is absolute, or has an empty part, '.' or '..'"
    elif not _is_unicode(text):
        problem = "is not valid Unicode"
    else:
        return
    raise InvalidInputError(
        f"{field} {text!r} {problem}", hint="give a path relative to the folder, such as 'a/b.parquet'", field=field
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
