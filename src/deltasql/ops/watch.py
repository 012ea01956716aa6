"""Commits as they come, for those who want to hear of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from deltasql.events import TableCommitted
from deltasql.ledger.listening import Listener
from deltasql.ops.services import Services

# How long one wait may last: the ledger is looked at this often even if a wake was lost.
_LOOK_SECONDS = 5.0


def watch(services: Services, seconds: float | None = None) -> Iterator[TableCommitted]:
    """Every commit from now on; ends after `seconds` without one.

    The first look and the listener come before the first `next`, so that nothing committed after this call is missed.
    """
    listener = services.listen()
    return _watch(services, services.reader.heads(), seconds, listener)


def _watch(
    services: Services, seen: dict[str, int], seconds: float | None, listener: Listener
) -> Iterator[TableCommitted]:
    with closing(listener):
        quiet_since = time.monotonic()
        while True:
            heads = services.reader.heads()
            for name in sorted(heads):
                if heads[name] > seen.get(name, -1):
                    yield from _new_commits(services, name, seen.get(name, -1), heads[name])
                    quiet_since = time.monotonic()
            seen = heads
            left = _LOOK_SECONDS if seconds is None else quiet_since + seconds - time.monotonic()
            if left <= 0:
                return
            listener.wait(min(left, _LOOK_SECONDS))


def _new_commits(services: Services, name: str, before: int, head: int) -> Iterator[TableCommitted]:
    for entry in reversed(services.reader.history(services.reader.table(name), since=before)):
        if entry.version <= head:
            yield TableCommitted(table=name, version=entry.version, operation=entry.operation or "")
