"""The ledger's tables, as SQLAlchemy Core definitions.

They serve migrations and their tests. The hot path speaks SQL of its own through the raw drivers (see
`statements.py`); importing this module there would cost a quarter of a second for nothing.

Every row of a file, tombstone, transaction or domain carries the dates of its life: `version`, when it came, and
an end (`removed_version` or `superseded_version`), `LIVE` while it lasts. So the state at any version is one range
of an index: `version <= v AND end > v`.

DuckDB gets no secondary indexes: it cannot alter a table that has one, takes an update of an indexed column for a
deletion and an insertion of the same key, and finds its rows by zone maps anyway.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from deltasql.ledger.contracts import LIVE

Database = Literal["sqlite", "postgresql", "duckdb"]


def _table(metadata: MetaData, name: str, *columns: Any, **options: Any) -> Table:
    return Table(name, metadata, *(column for column in columns if column is not None), **options)


def _action_key() -> list[Column[object]]:
    """Which commit an action belongs to, and its place in it."""
    return [
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("version", BigInteger, primary_key=True, autoincrement=False),
        Column("ordinal", Integer, primary_key=True, autoincrement=False),
    ]


def _numbered(database: Database, metadata: MetaData) -> Column[object]:
    """A key that the database counts up; the number of a dropped table is never given to another."""
    if database == "duckdb":
        numbers = Sequence("dl_tables_numbers", metadata=metadata)
        return Column("table_id", Integer, server_default=numbers.next_value(), primary_key=True, autoincrement=False)
    identity = [Identity()] if database == "postgresql" else []
    return Column("table_id", Integer, *identity, primary_key=True, autoincrement=True)


_KEY_PARTS = (("width", Integer), ("low", BigInteger), ("high", BigInteger))


def _place_index(database: Database, slot: int) -> Index | None:
    """Live files by partition and one indexed column; a file that dies leaves it by itself."""
    if database == "duckdb":
        return None
    columns = ("table_id", "partition_id", f"k{slot}_width", f"k{slot}_high", f"k{slot}_low")
    live = text(f"removed_version = {LIVE}")
    return Index(f"dl_add_files_k{slot}", *columns, sqlite_where=live, postgresql_where=live)


def _since_migration(database: Database, default: str) -> Any:
    """The default of a column that a migration added and that may not be null; only DuckDB can do without."""
    return None if database == "duckdb" else text(default)


def _file_key(database: Database) -> Column[object]:
    """A number made of path and deletion-vector id, to be found by: paths are long, some too long for an index."""
    return Column("file_key", BigInteger, nullable=False, server_default=_since_migration(database, "0"))


def _db_user(database: Database) -> Any:
    return text("SESSION_USER") if database == "postgresql" else None


def define(database: Database) -> MetaData:
    """Every table of a ledger in this kind of database."""
    metadata = MetaData()

    def index(name: str, *columns: str, **options: Any) -> Index | None:
        return None if database == "duckdb" else Index(name, *columns, **options)

    _table(
        metadata,
        "dl_lake",
        Column("lake_id", Text, primary_key=True),
        Column("root", Text),
        Column("created_at", BigInteger, nullable=False),
    )
    _table(
        metadata,
        "dl_tables",
        _numbered(database, metadata),
        Column("name", Text, nullable=False, unique=True),
        Column("location", Text, nullable=False, unique=True),
        Column("created_at", BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )

    # The one row of a table that every commit locks. Small, and apart from what the publisher updates.
    _table(
        metadata,
        "dl_table_heads",
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("version", BigInteger, nullable=False),
        Column("timestamp", BigInteger, nullable=False),
        Column("metadata_version", BigInteger, nullable=False),
        Column("protocol_version", BigInteger, nullable=False),
        Column("in_commit_timestamps", Boolean, nullable=False),
        # The highest row id given so far; NULL where the table does not track rows.
        Column("row_id_high_water", BigInteger),
        # The version that last said something of the columns that files are looked up by.
        Column("layout_version", BigInteger, nullable=False, server_default=_since_migration(database, "-1")),
    )
    _table(
        metadata,
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
        # Who says to have committed this, and, where the database knows its users, who it was for the database.
        Column("committed_by", Text),
        Column("db_user", Text, server_default=_db_user(database)),
        index("dl_table_versions_timestamp", "table_id", "timestamp", "version"),
        UniqueConstraint("table_id", "token", name="dl_table_versions_token"),
    )
    _table(
        metadata,
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
        _file_key(database),
        # Where a file lies: its partition, and for each indexed column the width, low and high end of its range.
        Column("partition_id", Integer),
        *(Column(f"k{n}_{part}", kind) for n in (1, 2) for part, kind in _KEY_PARTS),
        *(_place_index(database, n) for n in (1, 2)),
        index("dl_add_files_life", "table_id", "removed_version", "version"),
        index("dl_add_files_key", "table_id", "file_key"),
    )
    _table(
        metadata,
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
        _file_key(database),
        index("dl_remove_files_life", "table_id", "superseded_version", "version"),
        index("dl_remove_files_key", "table_id", "file_key"),
    )
    _table(
        metadata,
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
    _table(
        metadata,
        "dl_protocol_updates",
        *_action_key(),
        Column("min_reader_version", Integer, nullable=False),
        Column("min_writer_version", Integer, nullable=False),
        Column("reader_features", Text),
        Column("writer_features", Text),
        Column("extra", Text),
    )
    _table(
        metadata,
        "dl_txn_actions",
        *_action_key(),
        Column("app_id", Text, nullable=False),
        Column("txn_version", BigInteger, nullable=False),
        Column("last_updated", BigInteger),
        Column("extra", Text),
        Column("superseded_version", BigInteger, nullable=False),
        index("dl_txn_actions_app", "table_id", "app_id", "superseded_version"),
    )
    _table(
        metadata,
        "dl_domain_metadata",
        *_action_key(),
        Column("domain", Text, nullable=False),
        Column("configuration", Text, nullable=False),
        Column("removed", Boolean, nullable=False),
        Column("extra", Text),
        Column("superseded_version", BigInteger, nullable=False),
        index("dl_domain_metadata_domain", "table_id", "domain", "superseded_version"),
    )
    _table(
        metadata,
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
    _table(
        metadata,
        "dl_other_actions",
        *_action_key(),
        Column("name", Text, nullable=False),
        Column("body", Text, nullable=False),
    )

    # The outbox: one row a commit, written in the commit's own transaction.
    _table(
        metadata,
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
        index(
            "dl_mirror_status_unpublished",
            "table_id",
            "version",
            sqlite_where=text("state <> 'SUCCESS'"),
            postgresql_where=text("state <> 'SUCCESS'"),
        ),
    )

    # How far the log of a table has come. Apart from the head, so that publishing never waits for a writer's lock.
    _table(
        metadata,
        "dl_mirror_heads",
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("published_version", BigInteger, nullable=False),
        Column("checkpoint_version", BigInteger),
        Column("quarantined_version", BigInteger),
        Column("quarantined_at", BigInteger),
        Column("quarantine_reason", Text),
    )
    _table(
        metadata,
        "dl_leases",
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("holder", Text, nullable=False),
        Column("host", Text, nullable=False),
        Column("pid", Integer, nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
    )

    # The distinct partitions of a table: files point here, so that a predicate is tried on each once.
    _table(
        metadata,
        "dl_partitions",
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("partition_id", Integer, primary_key=True, autoincrement=False),
        Column("values_key", BigInteger, nullable=False),
        Column("partition_values", Text, nullable=False),
        index("dl_partitions_values", "table_id", "values_key"),
    )
    # The columns that files are looked up by, beside their partition.
    _table(
        metadata,
        "dl_skipping_columns",
        Column("table_id", Integer, primary_key=True, autoincrement=False),
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("column_path", Text, nullable=False),
        Column("kind", Text, nullable=False),
    )

    # What was done to the lake beyond commits, and by whom.
    _table(
        metadata,
        "dl_audit",
        Column("audit_id", Text, primary_key=True),
        Column("acted_at", BigInteger, nullable=False),
        Column("action", Text, nullable=False),
        Column("table_name", Text),
        Column("version", BigInteger),
        Column("actor", Text, nullable=False),
        Column("db_user", Text, server_default=_db_user(database)),
        Column("detail", Text, nullable=False),
        index("dl_audit_time", "acted_at"),
    )
    return metadata
