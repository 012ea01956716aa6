"""LIKE patterns: `%` stands for any run of characters, `_` for one, and a backslash takes their meaning away."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache


class Wildcard(Enum):
    ONE = "_"
    RUN = "%"


Part = str | Wildcard

# Past this, RE2 runs out of the memory that Arrow gives it.
MAX_PATTERN = 10_000

_WILDCARDS = {wildcard.value: wildcard for wildcard in Wildcard}


@lru_cache(maxsize=256)
def like_parts(pattern: str) -> tuple[Part, ...]:
    """The characters and wildcards of a pattern. A `ValueError` says what is wrong with it."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a LIKE pattern has at most {MAX_PATTERN} characters")
    parts: list[Part] = []
    characters = iter(pattern)
    for character in characters:
        if character != "\\":
            parts.append(_WILDCARDS.get(character, character))
            continue
        escaped = next(characters, "")
        if escaped not in {"%", "_", "\\"}:
            raise ValueError("in a LIKE pattern a backslash must stand before %, _ or another backslash")
        parts.append(escaped)
    return tuple(parts)


@lru_cache(maxsize=256)
def like_prefix(pattern: str) -> str:
    """The text that every match starts with."""
    prefix: list[str] = []
    for part in like_parts(pattern):
        if isinstance(part, Wildcard):
            break
        prefix.append(part)
    return "".join(prefix)


def is_prefix_pattern(pattern: str) -> bool:
    """Whether the pattern asks for its prefix and nothing more, as `abc%` does."""
    rest = like_parts(pattern)[len(like_prefix(pattern)) :]
    return bool(rest) and all(part is Wildcard.RUN for part in rest)


def like_matches(pattern: str, text: str) -> bool:
    """Whether one text matches."""
    return _compiled(pattern).fullmatch(text) is not None


def like_re2(pattern: str) -> str:
    """The pattern as a regular expression of RE2, which Arrow uses."""
    return rf"(?s)\A{''.join(_regex(part) for part in like_parts(pattern))}\z"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # The leftmost place for a piece is never the wrong one, so each is matched once and for all: no backtracking.
    first, *later = _pieces(pattern)
    if not later:
        return re.compile(first, re.DOTALL)
    *middle, last = later
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in middle) + f".*{last}", re.DOTALL)


def _pieces(pattern: str) -> list[str]:
    """The regular expressions of what stands between the runs."""
    pieces = [""]
    for part in like_parts(pattern):
        if part is Wildcard.RUN:
            pieces.append("")
        else:
            pieces[-1] += _regex(part)
    return pieces


def _regex(part: Part) -> str:
    match part:
        case Wildcard.RUN:
            return ".*"
        case Wildcard.ONE:
            return "."
        case str():
            return re.escape(part)
