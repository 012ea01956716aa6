"""Who committed what; row ids; files found by a number instead of their path."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from deltasql.ledger.contracts import LIVE
from deltasql.ledger.rows import file_key
from deltasql.protocol.rebase import NO_ROW_IDS, ROW_TRACKING_DOMAIN, row_id_high_water

revision = "0002"
down_revision = "0001"

_FILES = ("dl_add_files", "dl_remove_files")


def upgrade() -> None:
    database = op.get_context().dialect.name
    db_user = sa.text("SESSION_USER") if database == "postgresql" else None
    op.add_column("dl_table_heads", sa.Column("row_id_high_water", sa.BigInteger()))
    op.add_column("dl_table_versions", sa.Column("committed_by", sa.Text()))
    # Without the default at first, which would name whoever migrates as the author of all that is there.
    op.add_column("dl_table_versions", sa.Column("db_user", sa.Text()))
    if db_user is not None:
        op.alter_column("dl_table_versions", "db_user", server_default=db_user)
    for name in _FILES:
        _add_file_key(name, database)
    op.create_table(
        "dl_audit",
        sa.Column("audit_id", sa.Text(), nullable=False),
        sa.Column("acted_at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text()),
        sa.Column("version", sa.BigInteger()),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("db_user", sa.Text(), server_default=db_user),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id"),
    )
    if database != "duckdb":
        op.create_index("dl_audit_time", "dl_audit", ["acted_at"])
    _note_row_ids()


def _add_file_key(name: str, database: str) -> None:
    if database == "duckdb":
        # It adds no column with a constraint, but takes the constraint afterwards, as long as no row was changed.
        op.add_column(name, sa.Column("file_key", sa.BigInteger(), server_default=sa.text("0")))
        op.execute(f"ALTER TABLE {name} ALTER COLUMN file_key DROP DEFAULT")
        op.execute(f"ALTER TABLE {name} ALTER COLUMN file_key SET NOT NULL")
        _fill_file_keys(name)
        return
    op.add_column(name, sa.Column("file_key", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    _fill_file_keys(name)
    op.drop_index(f"{name}_path", table_name=name)
    op.create_index(f"{name}_key", name, ["table_id", "file_key"])


def _fill_file_keys(name: str) -> None:
    run = op.get_bind().execute
    found: list[Any] = list(run(sa.text(f"SELECT table_id, version, ordinal, path, dv_id FROM {name}")))
    rows = [{"id": row[0], "version": row[1], "ordinal": row[2], "key": file_key(row[3], row[4])} for row in found]
    if rows:
        where = "table_id = :id AND version = :version AND ordinal = :ordinal"
        run(sa.text(f"UPDATE {name} SET file_key = :key WHERE {where}"), rows)


def _note_row_ids() -> None:
    """Tables adopted before may track rows already: from no id on, or from the mark in their domain metadata."""
    run = op.get_bind().execute
    tracking = run(
        sa.text(
            "SELECT h.table_id, CASE WHEN d.removed THEN NULL ELSE d.configuration END FROM dl_table_heads h "
            "JOIN dl_protocol_updates p ON p.table_id = h.table_id AND p.version = h.protocol_version "
            "LEFT JOIN dl_domain_metadata d ON d.table_id = h.table_id AND d.domain = :domain "
            f"AND d.superseded_version = {LIVE} WHERE p.writer_features LIKE :feature"
        ),
        {"domain": ROW_TRACKING_DOMAIN, "feature": '%"rowTracking"%'},
    ).fetchall()
    for table_id, configuration in tracking:
        mark = NO_ROW_IDS if configuration is None else row_id_high_water(configuration)
        run(
            sa.text("UPDATE dl_table_heads SET row_id_high_water = :mark WHERE table_id = :table"),
            {"mark": mark, "table": table_id},
        )
