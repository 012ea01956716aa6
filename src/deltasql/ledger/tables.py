"""The ledger's tables, as SQLAlchemy Core definitions.

They serve migrations and their tests. The hot path speaks SQL of its own through the raw drivers (see
`statements.py`); importing this module there would cost a quarter of a second for nothing.

Every row of a file, tombstone, transaction or domain carries the dates of its life: `version`, when it came, and
an end (`removed_version` or `superseded_version`), `LIVE` while it lasts. So the state at any version is one range
of an index: `version <= v AND end > v`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

_BigKey = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *columns: Any, **options: Any) -> Table:
    return Table(name, metadata, *columns, **options)


def _action_key() -> list[Column[object]]:
    """Which commit an action belongs to, and its place in it."""
    return [
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("version", BigInteger, primary_key=True, autoincrement=False),
        Column("ordinal", Integer, primary_key=True, autoincrement=False),
    ]


lake = _table(
    "dl_lake",
    Column("lake_id", Text, primary_key=True),
    Column("root", Text),
    Column("created_at", BigInteger, nullable=False),
)

tables = _table(
    "dl_tables",
    Column("table_id", _BigKey, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("location", Text, nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    # A dropped table's id is never given to another.
    sqlite_autoincrement=True,
)

# The one row of a table that every commit locks. Small, and apart from what the publisher updates.
table_heads = _table(
    "dl_table_heads",
    Column("table_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("metadata_version", BigInteger, nullable=False),
    Column("protocol_version", BigInteger, nullable=False),
    Column("in_commit_timestamps", Boolean, nullable=False),
)

table_versions = _table(
    "dl_table_versions",
    Column("table_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("operation", Text),
    Column("commit_info", Text),
    Column("commit_info_ordinal", Integer),
    Column("num_actions", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("encoder", Integer, nullable=False),
    # Only of adopted commits whose canonical encoding differs from what was found.
    Column("found_bytes", LargeBinary),
    # 'written' here, 'adopted' from a log, or the 'checkpoint' an adopted history begins with.
    Column("origin", Text, nullable=False),
    Column("token", Text),
    Column("group_id", Text),
    Index("dl_table_versions_timestamp", "table_id", "timestamp", "version"),
    UniqueConstraint("table_id", "token", name="dl_table_versions_token"),
)

add_files = _table(
    "dl_add_files",
    *_action_key(),
    Column("path", Text, nullable=False),
    Column("dv_id", Text, nullable=False),
    Column("partition_values", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modification_time", BigInteger, nullable=False),
    Column("data_change", Boolean, nullable=False),
    Column("stats", Text),
    Column("tags", Text),
    Column("deletion_vector", Text),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    Column("clustering_provider", Text),
    Column("extra", Text),
    Column("removed_version", BigInteger, nullable=False),
    Index("dl_add_files_life", "table_id", "removed_version", "version"),
    Index("dl_add_files_path", "table_id", "path", "dv_id"),
)

remove_files = _table(
    "dl_remove_files",
    *_action_key(),
    Column("path", Text, nullable=False),
    Column("dv_id", Text, nullable=False),
    Column("deletion_timestamp", BigInteger),
    Column("data_change", Boolean, nullable=False),
    Column("extended_file_metadata", Boolean),
    Column("partition_values", Text),
    Column("size", BigInteger),
    Column("tags", Text),
    Column("deletion_vector", Text),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    Column("stats", Text),
    Column("extra", Text),
    Column("superseded_version", BigInteger, nullable=False),
    Index("dl_remove_files_life", "table_id", "superseded_version", "version"),
    Index("dl_remove_files_path", "table_id", "path", "dv_id"),
)

metadata_updates = _table(
    "dl_metadata_updates",
    *_action_key(),
    Column("id", Text, nullable=False),
    Column("name", Text),
    Column("description", Text),
    Column("format", Text, nullable=False),
    Column("schema_string", Text, nullable=False),
    Column("partition_columns", Text, nullable=False),
    Column("configuration", Text, nullable=False),
    Column("created_time", BigInteger),
    Column("extra", Text),
)

protocol_updates = _table(
    "dl_protocol_updates",
    *_action_key(),
    Column("min_reader_version", Integer, nullable=False),
    Column("min_writer_version", Integer, nullable=False),
    Column("reader_features", Text),
    Column("writer_features", Text),
    Column("extra", Text),
)

txn_actions = _table(
    "dl_txn_actions",
    *_action_key(),
    Column("app_id", Text, nullable=False),
    Column("txn_version", BigInteger, nullable=False),
    Column("last_updated", BigInteger),
    Column("extra", Text),
    Column("superseded_version", BigInteger, nullable=False),
    Index("dl_txn_actions_app", "table_id", "app_id", "superseded_version"),
)

domain_metadata = _table(
    "dl_domain_metadata",
    *_action_key(),
    Column("domain", Text, nullable=False),
    Column("configuration", Text, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("extra", Text),
    Column("superseded_version", BigInteger, nullable=False),
    Index("dl_domain_metadata_domain", "table_id", "domain", "superseded_version"),
)

cdc_files = _table(
    "dl_cdc_files",
    *_action_key(),
    Column("path", Text, nullable=False),
    Column("partition_values", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("data_change", Boolean, nullable=False),
    Column("tags", Text),
    Column("extra", Text),
)

# Actions this release does not know, carried whole.
other_actions = _table(
    "dl_other_actions",
    *_action_key(),
    Column("name", Text, nullable=False),
    Column("body", Text, nullable=False),
)

# The outbox: one row a commit, written in the commit's own transaction.
mirror_status = _table(
    "dl_mirror_status",
    Column("table_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("attempted_at", BigInteger),
    Column("published_at", BigInteger),
    Column("error_class", Text),
    Column("error", Text),
    Index(
        "dl_mirror_status_unpublished",
        "table_id",
        "version",
        sqlite_where=text("state <> 'SUCCESS'"),
        postgresql_where=text("state <> 'SUCCESS'"),
    ),
)

# How far the log of a table has come. Apart from the head, so that publishing never waits for a writer's lock.
mirror_heads = _table(
    "dl_mirror_heads",
    Column("table_id", Integer, primary_key=True, autoincrement=False),
    Column("published_version", BigInteger, nullable=False),
    Column("checkpoint_version", BigInteger),
    Column("quarantined_version", BigInteger),
    Column("quarantined_at", BigInteger),
    Column("quarantine_reason", Text),
)

leases = _table(
    "dl_leases",
    Column("table_id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
