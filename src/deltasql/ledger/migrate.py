"""Bring a database to this release's schema. The only door to Alembic, so that nobody else pays for importing it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from deltasql.errors import ConfigError, LedgerError
from deltasql.ledger.engine import SCHEMA_VERSION, Ledger, other_release, schema_version


def alembic_config() -> Config:
    config = Config()
    # Alembic reads a percent sign as the start of a variable.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def migrate(ledger: Ledger, revision: str = "head") -> str:
    """Run what is missing and return the schema version reached.

    An empty database becomes a ledger in one transaction; an older ledger gets one transaction a migration, and can be
    migrated on where that was broken off. Safe to call from many processes at once: the first one works, the others
    wait and find nothing to do.
    """
    return ledger.repeat(lambda: _migrate(ledger, revision))


def _migrate(ledger: Ledger, revision: str) -> str:
    # The raw driver goes first: it refuses a file that is no database with a message of ours.
    found = schema_version(ledger) if ledger.dialect.exists() else None
    if found is not None and found > SCHEMA_VERSION:
        raise other_release(found)
    scripts = ScriptDirectory.from_config(alembic_config())
    steps = [revision]
    if found is not None:
        wanted = scripts.iterate_revisions(revision, found)
        steps = [script.revision for script in wanted][::-1]
    for step in steps:
        _upgrade(ledger, step)
    reached = schema_version(ledger)
    if reached is None:
        raise ConfigError("the migration left no schema version", hint="check that the database is writable")
    return reached


def _upgrade(ledger: Ledger, revision: str) -> None:
    # On the same kind of connection as everything else: it waits for a lock as long, and writes as safely.
    engine = sqlalchemy.create_engine(
        ledger.dialect.sqlalchemy_url(), creator=ledger.dialect.sqlalchemy_connection, poolclass=NullPool
    )
    if ledger.dialect.name == "duckdb":
        _let_alembic_know_duckdb()

    def begin(connection: sqlalchemy.Connection) -> None:
        for statement in ledger.dialect.begin_migration:
            connection.exec_driver_sql(statement)

    event.listen(engine, "begin", begin)
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


def _let_alembic_know_duckdb() -> None:
    """Alembic finds how to speak to a database among the subclasses of its own class."""
    from alembic.ddl.impl import DefaultImpl

    class _DuckdbImpl(DefaultImpl):  # pyright: ignore[reportUnusedClass]
        __dialect__ = "duckdb"
