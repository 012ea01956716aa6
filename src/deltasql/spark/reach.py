"""Which tables Spark's processes can reach. A store in memory lives in one process, and Spark is many."""

from __future__ import annotations

from deltasql.errors import UnsupportedError
from deltasql.ledger.contracts import TableEntry


def within_reach(table: TableEntry) -> bool:
    return not table.location.startswith("memory:")


def require_reach(table: TableEntry) -> None:
    """Refuse what an executor would write into its own memory, and lose."""
    if not within_reach(table):
        raise UnsupportedError(
            f"table {table.name!r} is in the memory of one process, which Spark's executors do not share",
            hint="use to_arrow, append and overwrite in that process, or a lake in a folder",
            field="table",
        )
