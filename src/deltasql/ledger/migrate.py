"""Bring a database to this release's schema. The only door to Alembic, so that nobody else pays for importing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from deltasql.errors import ConfigError, LedgerError
from deltasql.ledger.engine import Ledger, schema_version


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def migrate(ledger: Ledger, revision: str = "head") -> str:
    """Run what is missing in one transaction and return the schema version reached.

    Safe to call from many processes at once: the first one works, the others wait and find nothing to do.
    """
    # The raw driver goes first: it refuses a file that is no database with a message of ours.
    schema_version(ledger)
    engine = sqlalchemy.create_engine(ledger.dialect.sqlalchemy_url())
    if ledger.dialect.name == "sqlite":
        _take_over_transactions(engine)
    try:
        with engine.begin() as connection:
            config = alembic_config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    except DBAPIError as error:
        typed = ledger.dialect.classify(error.orig) if isinstance(error.orig, Exception) else None
        raise (typed or LedgerError(f"migration failed: {error}", hint="nothing was changed")) from error
    finally:
        engine.dispose()
    reached = schema_version(ledger)
    if reached is None:
        raise ConfigError("the migration left no schema version", hint="check that the database is writable")
    return reached


def _take_over_transactions(engine: sqlalchemy.Engine) -> None:
    """Make SQLite's transactions cover definitions too: the driver's own begin is too late for that."""

    def leave_to_us(connection: Any, _: object) -> None:
        connection.isolation_level = None

    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", leave_to_us)
    event.listen(engine, "begin", begin)
