"""Alembic's entry point: runs migrations on the connection that `migrate` hands over."""

from alembic import context

from deltasql.ledger.engine import VERSION_TABLE
from deltasql.ledger.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()
