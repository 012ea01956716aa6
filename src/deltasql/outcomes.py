"""What a commit came to. Expected outcomes are values; the client turns a `Conflict` into a `ConflictError`."""

from __future__ import annotations

from typing import Literal

import msgspec

ConflictReason = Literal[
    "concurrent_append",
    "concurrent_delete_read",
    "concurrent_delete_delete",
    "metadata_changed",
    "protocol_changed",
    "concurrent_transaction",
    "concurrent_domain",
]


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The commit stands. `timestamp` is in milliseconds; `replayed` says that an earlier try had already landed."""

    table: str
    version: int
    timestamp: int
    group_id: str | None = None
    replayed: bool = False


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrent commit won, and this one may not be rebased onto it. Nothing was written."""

    table: str
    reason: ConflictReason
    winning_version: int
    files: tuple[str, ...] = ()
    detail: str = ""
