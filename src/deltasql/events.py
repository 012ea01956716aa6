"""What happened, as typed values. Nobody below the client writes a log line or a metric: they emit, sinks decide."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    table: str


class TableCommitted(Event, frozen=True, kw_only=True):
    """A version is in the ledger."""

    version: int
    operation: str


class VersionsPublished(Event, frozen=True, kw_only=True):
    """Versions from `first` to `last` are in the log."""

    first: int
    last: int
    bytes: int


class PublishFailed(Event, frozen=True, kw_only=True):
    """A version could not be published; it stays in the outbox."""

    version: int
    error_class: str
    error: str


class TableQuarantined(Event, frozen=True, kw_only=True):
    """A foreign commit was found; nothing more is published until an operator decides."""

    version: int
    reason: str


class CheckpointPublished(Event, frozen=True, kw_only=True):
    version: int
    actions: int
    bytes: int


class CheckpointFailed(Event, frozen=True, kw_only=True):
    """A checkpoint could not be written. The commits it would have covered are published all the same."""

    version: int
    error: str


class Sink(Protocol):
    def __call__(self, event: Event, /) -> None: ...


def ignore(event: Event) -> None:
    """The sink of those who listen to nothing."""
