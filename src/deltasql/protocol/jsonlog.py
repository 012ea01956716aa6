"""Commit files: actions to canonical bytes and back.

Canonical means: the bytes Delta Spark would write for the same actions. The same actions give the same bytes on
every machine, process and retry, because publishing again must be recognisable as the same commit.
`ENCODER_VERSION` is kept with every commit in the ledger; a release that encodes differently raises it and keeps
the older encoder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, cast

import orjson

from deltasql.errors import InvalidInputError
from deltasql.protocol.action_json import DECODERS, ENCODERS, Fields, Json, malformed
from deltasql.protocol.actions import Action, UnknownAction

ENCODER_VERSION = 1

# Escaped backslashes are matched too, so that the second one is never taken for the start of an escape.
_ESCAPE = re.compile(rb"\\\\|\\u00[01][0-9a-f]")


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The canonical bytes of a commit file: one line an action, each ended by a newline."""
    return b"".join([encode_action(action) for action in actions])


def encode_action(action: Action) -> bytes:
    """The canonical line of one action, newline included."""
    name, to_json = ENCODERS[type(action)]
    return dump_line({name or cast("UnknownAction", action).name: to_json(action)})


def dump_json(value: object) -> bytes:
    """Compact JSON, spelled as Delta Spark spells it."""
    try:
        text = orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidInputError(
            f"a value cannot be written as JSON: {error}",
            hint="use text without lone surrogates and integers of at most 64 bits",
            field="action",
        ) from error
    # orjson writes control characters in lower-case hexadecimal, Delta Spark in upper case.
    return _ESCAPE.sub(_upper, text) if b"\\u00" in text else text


def dump_line(value: object) -> bytes:
    return dump_json(value) + b"\n"


def _upper(match: re.Match[bytes]) -> bytes:
    escape = match.group()
    return b"\\u" + escape[2:].upper() if len(escape) > 2 else escape


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode_commit(data: bytes, *, source: str = "commit") -> list[Action]:
    """The actions of a commit file, in order. `source` names the file in errors.

    Accepts what other writers produce: no newline at the end, blank lines, spaces, explicit nulls.
    """
    actions: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line and not line.isspace():
            actions.append(decode_action(line, source=f"{source}, line {number}"))
    return actions


def decode_action(line: bytes, *, source: str = "action") -> Action:
    """The action on one line of a commit file."""
    body = load_object(line, source=source)
    # Some writers spell out the other action types as nulls beside the one that is meant.
    present = [(name, value) for name, value in body.items() if value is not None]
    if len(present) != 1:
        raise malformed(source, f"one action a line is expected, found {[name for name, _ in present]}")
    name, value = present[0]
    decoder = DECODERS.get(name)
    if decoder is None:
        return UnknownAction(name, value)
    if not isinstance(value, dict):
        raise malformed(source, f"{name} must be an object, found {type(value).__name__}")
    return decoder(Fields(cast("Json", value), f"{source}: {name}"))


def load_object(text: bytes | str, *, source: str) -> Json:
    """A JSON object, or a typed error. Duplicate keys are refused: readers disagree on which one counts."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise malformed(source, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise malformed(source, f"a JSON object is expected, found {type(value).__name__}")
    # A line that dumps to its own length cannot have lost a key; only the others are worth the slow look.
    try:
        if len(orjson.dumps(value)) != len(text):
            json.loads(text, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError, TypeError) as error:
        raise malformed(source, str(error)) from error
    return cast("Json", value)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {repeated!r} stands twice in one object")
    return result
