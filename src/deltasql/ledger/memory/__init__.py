"""A ledger that is nothing but lists of commits: for tests, ours and our users'."""

from __future__ import annotations

import time
from collections.abc import Callable

from deltasql.ledger.memory.lifecycle import MemoryLifecycle
from deltasql.ledger.memory.outbox import MemoryOutbox
from deltasql.ledger.memory.reader import MemoryTxnLogReader
from deltasql.ledger.memory.tables import Contents
from deltasql.ledger.memory.writer import MemoryTxnLogWriter

__all__ = ["MemoryLedger", "MemoryLifecycle", "MemoryOutbox", "MemoryTxnLogReader", "MemoryTxnLogWriter"]


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryLedger:
    """A ledger in memory, safe to use from many threads of one process.

    Its sides behave like those of a SQL ledger, to the bytes of a commit. `clock` gives milliseconds: with one of
    its own, a test decides how time goes.
    """

    def __init__(self, clock: Callable[[], int] = _system_clock) -> None:
        contents = Contents(clock)
        self.writer = MemoryTxnLogWriter(contents)
        self.reader = MemoryTxnLogReader(contents)
        self.outbox = MemoryOutbox(contents)
        self.lifecycle = MemoryLifecycle(contents)
