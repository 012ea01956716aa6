"""The databases a ledger can live in: one module each, holding what differs and nothing else."""

from __future__ import annotations

from deltasql.errors import ConfigError
from deltasql.ledger.dialects.base import Dialect, Session

EXAMPLES = (
    "give one like sqlite:///lake.db (a relative path), sqlite:////data/lake.db (an absolute one), "
    "duckdb:////data/lake.duckdb or postgresql://user@host/database"
)


def dialect_for(url: str) -> Dialect:
    """The dialect a ledger URL asks for. A driver is only loaded where its database is wanted."""
    text = isinstance(url, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    scheme = url.partition("://")[0] if text and "://" in url else ""
    match scheme:
        case "sqlite":
            from deltasql.ledger.dialects.sqlite import SqliteDialect

            return SqliteDialect(url)
        case "postgresql" | "postgres":
            from deltasql.ledger.dialects.postgresql import PostgresDialect

            return PostgresDialect(url)
        case "duckdb":
            from deltasql.ledger.dialects.duckdb import DuckdbDialect

            return DuckdbDialect(url)
        case _:
            raise ConfigError("this is not the URL of a ledger", hint=EXAMPLES, field="ledger")


__all__ = ["Dialect", "Session", "dialect_for"]
