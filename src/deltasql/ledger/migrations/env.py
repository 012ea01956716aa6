"""Alembic's entry point: runs migrations on the connection that `migrate` hands over."""

from alembic import context

from deltasql.ledger.engine import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
)
context.run_migrations()
