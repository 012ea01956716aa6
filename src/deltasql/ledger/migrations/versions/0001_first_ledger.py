"""The ledger as of release 0.1."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _database() -> str:
    return op.get_context().dialect.name


def _create_index(*arguments: Any, **options: Any) -> None:
    if _database() != "duckdb":
        op.create_index(*arguments, **options)


def _numbered() -> sa.Column[Any]:
    """A key that the database counts up."""
    match _database():
        case "duckdb":
            numbers = sa.Sequence("dl_tables_numbers")
            op.execute(sa.schema.CreateSequence(numbers))
            return sa.Column(
                "table_id", sa.Integer(), server_default=numbers.next_value(), autoincrement=False, nullable=False
            )
        case "postgresql":
            return sa.Column("table_id", sa.Integer(), sa.Identity(), autoincrement=True, nullable=False)
        case _:
            return sa.Column("table_id", sa.Integer(), autoincrement=True, nullable=False)


def upgrade() -> None:
    op.create_table(
        "dl_add_files",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("dv_id", sa.Text(), nullable=False),
        sa.Column("partition_values", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("modification_time", sa.BigInteger(), nullable=False),
        sa.Column("data_change", sa.Boolean(), nullable=False),
        sa.Column("stats", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=True),
        sa.Column("deletion_vector", sa.Text(), nullable=True),
        sa.Column("base_row_id", sa.BigInteger(), nullable=True),
        sa.Column("default_row_commit_version", sa.BigInteger(), nullable=True),
        sa.Column("clustering_provider", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("removed_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    _create_index("dl_add_files_life", "dl_add_files", ["table_id", "removed_version", "version"], unique=False)
    _create_index("dl_add_files_path", "dl_add_files", ["table_id", "path", "dv_id"], unique=False)
    op.create_table(
        "dl_cdc_files",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("partition_values", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data_change", sa.Boolean(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    op.create_table(
        "dl_domain_metadata",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("superseded_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    _create_index(
        "dl_domain_metadata_domain", "dl_domain_metadata", ["table_id", "domain", "superseded_version"], unique=False
    )
    op.create_table(
        "dl_lake",
        sa.Column("lake_id", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lake_id"),
    )
    op.create_table(
        "dl_leases",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "dl_metadata_updates",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("schema_string", sa.Text(), nullable=False),
        sa.Column("partition_columns", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("created_time", sa.BigInteger(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    op.create_table(
        "dl_mirror_heads",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("published_version", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint_version", sa.BigInteger(), nullable=True),
        sa.Column("quarantined_version", sa.BigInteger(), nullable=True),
        sa.Column("quarantined_at", sa.BigInteger(), nullable=True),
        sa.Column("quarantine_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "dl_mirror_status",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempted_at", sa.BigInteger(), nullable=True),
        sa.Column("published_at", sa.BigInteger(), nullable=True),
        sa.Column("error_class", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "version"),
    )
    _create_index(
        "dl_mirror_status_unpublished",
        "dl_mirror_status",
        ["table_id", "version"],
        unique=False,
        sqlite_where=sa.text("state <> 'SUCCESS'"),
        postgresql_where=sa.text("state <> 'SUCCESS'"),
    )
    op.create_table(
        "dl_other_actions",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    op.create_table(
        "dl_protocol_updates",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("min_reader_version", sa.Integer(), nullable=False),
        sa.Column("min_writer_version", sa.Integer(), nullable=False),
        sa.Column("reader_features", sa.Text(), nullable=True),
        sa.Column("writer_features", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    op.create_table(
        "dl_remove_files",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("dv_id", sa.Text(), nullable=False),
        sa.Column("deletion_timestamp", sa.BigInteger(), nullable=True),
        sa.Column("data_change", sa.Boolean(), nullable=False),
        sa.Column("extended_file_metadata", sa.Boolean(), nullable=True),
        sa.Column("partition_values", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=True),
        sa.Column("deletion_vector", sa.Text(), nullable=True),
        sa.Column("base_row_id", sa.BigInteger(), nullable=True),
        sa.Column("default_row_commit_version", sa.BigInteger(), nullable=True),
        sa.Column("stats", sa.Text(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("superseded_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    _create_index(
        "dl_remove_files_life", "dl_remove_files", ["table_id", "superseded_version", "version"], unique=False
    )
    _create_index("dl_remove_files_path", "dl_remove_files", ["table_id", "path", "dv_id"], unique=False)
    op.create_table(
        "dl_table_heads",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("metadata_version", sa.BigInteger(), nullable=False),
        sa.Column("protocol_version", sa.BigInteger(), nullable=False),
        sa.Column("in_commit_timestamps", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
    )
    op.create_table(
        "dl_table_versions",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=True),
        sa.Column("commit_info", sa.Text(), nullable=True),
        sa.Column("commit_info_ordinal", sa.Integer(), nullable=True),
        sa.Column("num_actions", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("encoder", sa.Integer(), nullable=False),
        sa.Column("found_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("table_id", "version"),
        sa.UniqueConstraint("table_id", "token", name="dl_table_versions_token"),
    )
    _create_index(
        "dl_table_versions_timestamp", "dl_table_versions", ["table_id", "timestamp", "version"], unique=False
    )
    op.create_table(
        "dl_tables",
        _numbered(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id"),
        sa.UniqueConstraint("location"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "dl_txn_actions",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("app_id", sa.Text(), nullable=False),
        sa.Column("txn_version", sa.BigInteger(), nullable=False),
        sa.Column("last_updated", sa.BigInteger(), nullable=True),
        sa.Column("extra", sa.Text(), nullable=True),
        sa.Column("superseded_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "version", "ordinal"),
    )
    _create_index("dl_txn_actions_app", "dl_txn_actions", ["table_id", "app_id", "superseded_version"], unique=False)
