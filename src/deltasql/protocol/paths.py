"""Names in a table's folder: the files of the log, and how a data file's key becomes the path in an action and back."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

import msgspec

from deltasql.errors import InvalidInputError

LOG_DIR = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
SIDECAR_DIR = "_sidecars"
MAX_VERSION = 2**63 - 1
MAX_PARTS = 2**31 - 1

LogFileKind = Literal["commit", "checkpoint", "checksum", "compaction"]


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the name of a file in the log says.

    A checkpoint with `part` and `parts` is a piece of a multi-part one, with `uuid` it is a V2 one, with neither it
    has the classic name. A compaction runs from `version` to `end_version`.
    """

    kind: LogFileKind
    version: int
    part: int | None = None
    parts: int | None = None
    uuid: str | None = None
    end_version: int | None = None


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_LOG_NAME = re.compile(
    r"(?P<version>[0-9]{20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<compaction>(?P<end_version>[0-9]{20})\.compacted\.json)"
    r"|(?P<checkpoint>checkpoint\."
    rf"(?:parquet|(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet|(?P<uuid>{_UUID})\.(?:parquet|json)))"
    r")"
)


def commit_name(version: int) -> str:
    return f"{_digits(version)}.json"


def checkpoint_name(version: int) -> str:
    return f"{_digits(version)}.checkpoint.parquet"


def checkpoint_part_name(version: int, part: int, parts: int) -> str:
    """The name of one part of a multi-part checkpoint; parts are counted from 1."""
    if not 1 <= part <= parts <= MAX_PARTS:
        raise InvalidInputError(f"there is no part {part} of {parts}", hint="count parts from 1", field="part")
    return f"{_digits(version)}.checkpoint.{part:010}.{parts:010}.parquet"


def checkpoint_v2_name(version: int, uuid: str, suffix: Literal["parquet", "json"] = "parquet") -> str:
    if not re.fullmatch(_UUID, uuid):
        raise InvalidInputError(f"{uuid!r} is not a UUID", hint="use str(uuid.uuid4())", field="uuid")
    return f"{_digits(version)}.checkpoint.{uuid}.{suffix}"


def checksum_name(version: int) -> str:
    return f"{_digits(version)}.crc"


def compaction_name(version: int, end_version: int) -> str:
    """The name of the compaction of the commits from `version` to `end_version`, both included."""
    if end_version <= version:
        raise InvalidInputError(
            f"versions {version} to {end_version} cannot be compacted",
            hint="a compaction covers two commits or more",
            field="end_version",
        )
    return f"{_digits(version)}.{_digits(end_version)}.compacted.json"


def parse_log_name(name: str) -> LogFile | None:
    """What a file in the log folder is, by its bare name; None for one that the protocol does not name."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return None
    kind: LogFileKind = match.lastgroup  # pyright: ignore[reportAssignmentType]
    numbers = {key: int(match[key]) for key in ("version", "end_version", "part", "parts") if match[key]}
    version, end = numbers["version"], numbers.get("end_version")
    if max(version, end or 0) > MAX_VERSION or (end is not None and end <= version):
        return None
    if "part" in numbers and not 1 <= numbers["part"] <= numbers["parts"] <= MAX_PARTS:
        return None
    return LogFile(kind=kind, uuid=match["uuid"], **numbers)


def _digits(version: int) -> str:
    if not 0 <= version <= MAX_VERSION:
        raise InvalidInputError(
            f"{version} is not a version", hint=f"versions run from 0 to {MAX_VERSION}", field="version"
        )
    return f"{version:020}"


# -- data files -----------------------------------------------------------------------------------------------------

# Java's URI class escapes everything in a path but these, other non-ASCII characters, and what it counts as space or
# control character beyond ASCII.
_SAFE = "/:@&=+$,;_-!.~'()*"
_ESCAPED = re.compile("[\x00-\x7f\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_BAD_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def encode_path(key: str) -> str:
    """The path of an action for a file at this key below the table's root, escaped as Delta Spark does it."""
    first, slash, rest = key.partition("/")
    # A colon in the first segment would make what stands before it a scheme.
    return _escape(first).replace(":", "%3A") + slash + _escape(rest)


def decode_path(path: str) -> str:
    """The key behind the relative path of an action."""
    if _BAD_ESCAPE.search(path):
        raise _refuse(path, "has a % that starts no escape")
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeError as error:
        raise _refuse(path, "is not UTF-8 text") from error


def is_absolute(path: str) -> bool:
    """Does the path of an action stand for itself, not for a place below the table's root?"""
    return path.startswith("/") or _SCHEME.match(path) is not None


def check_relative(path: str) -> None:
    """Refuse the path of an action that could name anything but a data file below the table's root.

    deltasql writes and deletes only what passes. Paths of other writers' files are carried as they are.
    """
    if is_absolute(path):
        raise _refuse(path, "is absolute")
    if "?" in path or "#" in path:
        raise _refuse(path, "has a query or a fragment")
    key = decode_path(path)
    if "\0" in key or "\\" in key:
        raise _refuse(path, "has a NUL character or a backslash")
    segments = key.split("/")
    if not {"", ".", ".."}.isdisjoint(segments):
        raise _refuse(path, "has an empty, '.' or '..' segment")
    if segments[0].lower() == LOG_DIR:
        raise _refuse(path, "lies in the log")


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: quote(match.group(), safe=_SAFE), text)


def _refuse(path: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"the path {path!r} {problem}", hint="use an escaped path relative to the table's root", field="path"
    )
