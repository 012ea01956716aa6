"""Delta Lake tables whose transaction log is a SQL database.

Names are loaded when they are first used: importing this package loads no database driver, no Arrow, no Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql import errors, protocol
    from deltasql.client import Lake, Table, connect
    from deltasql.config import MirrorSettings
    from deltasql.errors import ConflictError, DeltaSqlError
    from deltasql.ledger.contracts import Outbox, TxnLogReader, TxnLogWriter
    from deltasql.ledger.memory import MemoryLedger
    from deltasql.ledger.reader import SqlTxnLogReader
    from deltasql.ledger.writer import SqlTxnLogWriter
    from deltasql.log.memory import MemoryTarget
    from deltasql.log.target import MirrorTarget
    from deltasql.mirror.engine import MirrorEngine
    from deltasql.ops.transaction import Transaction
    from deltasql.outcomes import Committed, Conflict
    from deltasql.storage.base import ObjectStore
    from deltasql.storage.memory import MemoryStore

_HOMES = {
    "Committed": "deltasql.outcomes",
    "Conflict": "deltasql.outcomes",
    "ConflictError": "deltasql.errors",
    "DeltaSqlError": "deltasql.errors",
    "Lake": "deltasql.client",
    "MemoryLedger": "deltasql.ledger.memory",
    "MemoryStore": "deltasql.storage.memory",
    "MemoryTarget": "deltasql.log.memory",
    "MirrorEngine": "deltasql.mirror.engine",
    "MirrorSettings": "deltasql.config",
    "MirrorTarget": "deltasql.log.target",
    "ObjectStore": "deltasql.storage.base",
    "Outbox": "deltasql.ledger.contracts",
    "SqlTxnLogReader": "deltasql.ledger.reader",
    "SqlTxnLogWriter": "deltasql.ledger.writer",
    "Table": "deltasql.client",
    "Transaction": "deltasql.ops.transaction",
    "TxnLogReader": "deltasql.ledger.contracts",
    "TxnLogWriter": "deltasql.ledger.contracts",
    "connect": "deltasql.client",
}
# Reachable as attributes, because outside tools call `deltasql.protocol.jsonlog.decode_commit`.
_PACKAGES = ("errors", "protocol")

__all__ = [
    "Committed",
    "Conflict",
    "ConflictError",
    "DeltaSqlError",
    "Lake",
    "MemoryLedger",
    "MemoryStore",
    "MemoryTarget",
    "MirrorEngine",
    "MirrorSettings",
    "MirrorTarget",
    "ObjectStore",
    "Outbox",
    "SqlTxnLogReader",
    "SqlTxnLogWriter",
    "Table",
    "Transaction",
    "TxnLogReader",
    "TxnLogWriter",
    "__version__",
    "connect",
    "errors",
    "protocol",
]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"deltasql.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'deltasql' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
