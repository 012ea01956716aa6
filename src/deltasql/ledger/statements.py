"""The SQL of the hot path, all of it here. Placeholders are `?`; a dialect respells what its driver wants."""

from __future__ import annotations

from deltasql.ledger.contracts import LIVE
from deltasql.ledger.rows import ActionTable

KEY = ("table_id", "version", "ordinal")


def insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def action_columns(table: ActionTable) -> tuple[str, ...]:
    """The columns of one action type; the end of its life, where it has one, comes last."""
    return KEY + table.columns + ((table.end,) if table.end else ())


def select_actions(table: ActionTable) -> str:
    """The actions of a range of commits."""
    columns = ", ".join(("version", "ordinal", *table.columns))
    return (
        f"SELECT {columns} FROM {table.name} WHERE table_id = ? AND version BETWEEN ? AND ? ORDER BY version, ordinal"
    )


def select_alive(table: ActionTable, columns: tuple[str, ...], *, where: str = "") -> str:
    """The rows in force at a version: one index range, whatever the length of the history.

    Ordered by commit, so that the same state always comes out in the same order.
    """
    return (
        f"SELECT {', '.join(columns)} FROM {table.name} "
        f"WHERE table_id = ? AND {table.end} > ? AND version <= ?{where} ORDER BY version, ordinal"
    )


def count_alive(table: ActionTable, *, where: str = "") -> str:
    return f"SELECT COUNT(*) FROM {table.name} WHERE table_id = ? AND {table.end} > ? AND version <= ?{where}"


def select_live_files(columns: str, where: str, hint: str = "") -> str:
    """The files that count now and were there at a version."""
    return (
        f"SELECT {columns} FROM dl_add_files{hint} "
        f"WHERE table_id = ? AND removed_version = {LIVE} AND version <= ?{where}"
    )


def select_files_removed_since(columns: str, where: str) -> str:
    """The files that counted at a version and do not count any more."""
    return (
        f"SELECT {columns} FROM dl_add_files "
        f"WHERE table_id = ? AND removed_version > ? AND removed_version < {LIVE} AND version <= ?{where}"
    )


def select_latest(table: ActionTable) -> str:
    """The newest row not after a version: one step down an index."""
    return (
        f"SELECT {', '.join(table.columns)} FROM {table.name} "
        "WHERE table_id = ? AND version <= ? ORDER BY version DESC LIMIT 1"
    )


def select_live(table: ActionTable, key: str) -> str:
    """The row with this key that counts now."""
    return (
        f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE table_id = ? AND {key} = ? AND {table.end} = {LIVE}"
    )


def forget_keys(slot: int) -> str:
    """The files of a table are no longer known by this indexed column."""
    return (
        f"UPDATE dl_add_files SET k{slot}_width = NULL, k{slot}_low = NULL, k{slot}_high = NULL "
        f"WHERE table_id = ? AND removed_version = {LIVE}"
    )


def end_life(table: str, end: str, key: tuple[str, ...]) -> str:
    """End the life of the live row with this key, if there is one."""
    same = " AND ".join(f"{column} = ?" for column in key)
    return f"UPDATE {table} SET {end} = ? WHERE table_id = ? AND {same} AND {end} = {LIVE}"


SELECT_SLOTS = "SELECT slot, column_path, kind FROM dl_skipping_columns WHERE table_id = ? ORDER BY slot"
DELETE_SLOTS = "DELETE FROM dl_skipping_columns WHERE table_id = ?"
SELECT_PARTITION = "SELECT partition_id, partition_values FROM dl_partitions WHERE table_id = ? AND values_key = ?"
SELECT_PARTITIONS = (
    "SELECT partition_id, partition_values FROM dl_partitions WHERE table_id = ? AND partition_id > ? "
    "ORDER BY partition_id"
)
SELECT_LAST_PARTITION = "SELECT MAX(partition_id) FROM dl_partitions WHERE table_id = ?"

SELECT_ENDED = "SELECT path, dv_id FROM dl_add_files WHERE table_id = ? AND file_key = ? AND removed_version = ?"

TABLE_COLUMNS = "table_id, name, location"
SELECT_TABLES = f"SELECT {TABLE_COLUMNS} FROM dl_tables"
SELECT_TABLE = f"SELECT {TABLE_COLUMNS} FROM dl_tables WHERE name = ?"
SELECT_TABLE_AT = f"SELECT {TABLE_COLUMNS} FROM dl_tables WHERE location = ?"
INSERT_TABLE = "INSERT INTO dl_tables (name, location, created_at) VALUES (?, ?, ?)"

HEAD_COLUMNS = (
    "version",
    "timestamp",
    "metadata_version",
    "protocol_version",
    "in_commit_timestamps",
    "row_id_high_water",
    "layout_version",
)
SELECT_HEAD = "SELECT version, timestamp FROM dl_table_heads WHERE table_id = ?"
# The head, and the commits that metadata and protocol came with.
SELECT_HEAD_STATE = (
    "SELECT h.version, h.timestamp, h.metadata_version, m.sha256, h.protocol_version, p.sha256 FROM dl_table_heads h "
    "JOIN dl_table_versions m ON m.table_id = h.table_id AND m.version = h.metadata_version "
    "JOIN dl_table_versions p ON p.table_id = h.table_id AND p.version = h.protocol_version WHERE h.table_id = ?"
)
SELECT_HEADS = (
    "SELECT t.name, h.version FROM dl_tables t JOIN dl_table_heads h ON h.table_id = t.table_id WHERE h.version >= 0"
)
INSERT_HEAD = insert("dl_table_heads", ("table_id", *HEAD_COLUMNS))
# The compare-and-set: the head moves only from the version this commit was checked against.
MOVE_HEAD = (
    f"UPDATE dl_table_heads SET {', '.join(f'{column} = ?' for column in HEAD_COLUMNS)} "
    "WHERE table_id = ? AND version = ?"
)


# A commit to a table begins with its head, locked, and then asks which table that is and what time it is now.
LOCK_HEAD = (
    f"SELECT table_id, {', '.join(HEAD_COLUMNS)} FROM dl_table_heads "
    "WHERE table_id = (SELECT table_id FROM dl_tables WHERE name = ?)"
)


def select_target(clock: str) -> str:
    return (
        f"SELECT t.table_id, t.name, t.location, {clock}, m.sha256 "
        "FROM dl_tables t JOIN dl_table_heads h ON h.table_id = t.table_id "
        "LEFT JOIN dl_table_versions m ON m.table_id = h.table_id AND m.version = h.layout_version WHERE t.name = ?"
    )


VERSION_COLUMNS = (
    "table_id",
    "version",
    "timestamp",
    "operation",
    "commit_info",
    "commit_info_ordinal",
    "num_actions",
    "size",
    "sha256",
    "encoder",
    "found_bytes",
    "origin",
    "token",
    "group_id",
    "committed_by",
)
SELECT_VERSIONS = (
    "SELECT version, timestamp, commit_info, commit_info_ordinal, sha256, encoder, found_bytes, origin "
    "FROM dl_table_versions WHERE table_id = ? AND version BETWEEN ? AND ? ORDER BY version"
)
SELECT_VERSION_TIME = "SELECT timestamp FROM dl_table_versions WHERE table_id = ? AND version = ?"
SELECT_VERSION_AT = (
    "SELECT version FROM dl_table_versions WHERE table_id = ? AND timestamp <= ? "
    "ORDER BY timestamp DESC, version DESC LIMIT 1"
)
SELECT_FIRST_VERSION = "SELECT MIN(version), MIN(timestamp) FROM dl_table_versions WHERE table_id = ?"
SELECT_TOKEN = "SELECT version, timestamp, group_id FROM dl_table_versions WHERE table_id = ? AND token = ?"
# The commit in which an application's version, or a later one, stands.
SELECT_TXN = (
    "SELECT v.version, v.timestamp, v.group_id FROM dl_txn_actions a "
    "JOIN dl_table_versions v ON v.table_id = a.table_id AND v.version = a.version "
    f"WHERE a.table_id = ? AND a.app_id = ? AND a.superseded_version = {LIVE} AND a.txn_version >= ?"
)
SELECT_HISTORY = (
    "SELECT v.version, v.timestamp, v.operation, v.origin, v.commit_info, s.state "
    "FROM dl_table_versions v JOIN dl_mirror_status s ON s.table_id = v.table_id AND s.version = v.version "
    "WHERE v.table_id = ? AND v.version > ? ORDER BY v.version DESC"
)

STATUS_COLUMNS = ("table_id", "version", "state", "attempts", "created_at", "published_at")
SELECT_STATUS = (
    "SELECT s.version, s.state, s.attempts, s.created_at, s.attempted_at, s.published_at, s.error_class, s.error, "
    "v.size, v.sha256 FROM dl_mirror_status s "
    "JOIN dl_table_versions v ON v.table_id = s.table_id AND v.version = s.version WHERE s.table_id = ?"
)
SELECT_UNPUBLISHED = (
    "SELECT version FROM dl_mirror_status WHERE table_id = ? AND state <> 'SUCCESS' ORDER BY version LIMIT ?"
)
SELECT_TABLES_OWING = (
    f"SELECT {TABLE_COLUMNS} FROM dl_tables t WHERE EXISTS "
    "(SELECT 1 FROM dl_mirror_status s WHERE s.table_id = t.table_id AND s.state <> 'SUCCESS')"
)
MARK_PUBLISHED = (
    "UPDATE dl_mirror_status SET state = 'SUCCESS', attempts = attempts + 1, attempted_at = ?, published_at = ?, "
    "error_class = NULL, error = NULL WHERE table_id = ? AND version = ? AND state <> 'SUCCESS'"
)
MARK_FAILED = (
    "UPDATE dl_mirror_status SET state = 'FAILED', attempts = attempts + 1, attempted_at = ?, error_class = ?, "
    "error = ? WHERE table_id = ? AND version = ? AND state <> 'SUCCESS'"
)

INSERT_MIRROR_HEAD = insert("dl_mirror_heads", ("table_id", "published_version", "checkpoint_version"))
SELECT_MIRROR_HEAD = (
    "SELECT published_version, checkpoint_version, quarantined_version, quarantine_reason "
    "FROM dl_mirror_heads WHERE table_id = ?"
)
MOVE_PUBLISHED = "UPDATE dl_mirror_heads SET published_version = ? WHERE table_id = ? AND published_version = ?"
MOVE_CHECKPOINT = (
    "UPDATE dl_mirror_heads SET checkpoint_version = ? "
    "WHERE table_id = ? AND (checkpoint_version IS NULL OR checkpoint_version < ?)"
)
QUARANTINE = (
    "UPDATE dl_mirror_heads SET quarantined_version = ?, quarantined_at = ?, quarantine_reason = ? "
    "WHERE table_id = ? AND quarantined_version IS NULL"
)
LIFT_QUARANTINE = (
    "UPDATE dl_mirror_heads SET quarantined_version = NULL, quarantined_at = NULL, quarantine_reason = NULL "
    "WHERE table_id = ?"
)

SELECT_LEASE = "SELECT holder, host, pid, fence, expires_at FROM dl_leases WHERE table_id = ?"
# Of two that find no lease at the same time, one gets it.
INSERT_LEASE = insert("dl_leases", ("table_id", "holder", "host", "pid", "fence", "expires_at")) + (
    " ON CONFLICT DO NOTHING"
)
TAKE_LEASE = (
    "UPDATE dl_leases SET holder = ?, host = ?, pid = ?, fence = ?, expires_at = ? WHERE table_id = ? AND fence = ?"
)
EXTEND_LEASE = "UPDATE dl_leases SET expires_at = ? WHERE table_id = ? AND holder = ? AND fence = ?"
RELEASE_LEASE = "UPDATE dl_leases SET expires_at = 0 WHERE table_id = ? AND holder = ? AND fence = ?"

SELECT_LAKE = "SELECT lake_id, root FROM dl_lake"
INSERT_LAKE = insert("dl_lake", ("lake_id", "root", "created_at"))
SET_ROOT = "UPDATE dl_lake SET root = ?"

INSERT_ACT = insert("dl_audit", ("audit_id", "acted_at", "action", "table_name", "version", "actor", "detail"))
# The name is given twice: as NULL it stands for all tables.
SELECT_ACTS = (
    "SELECT acted_at, action, table_name, version, actor, db_user, detail FROM dl_audit "
    "WHERE CAST(? AS TEXT) IS NULL OR table_name = ? ORDER BY acted_at DESC LIMIT ?"
)
SELECT_COMMITTERS = (
    "SELECT v.timestamp, 'commit', t.name, v.version, v.committed_by, v.db_user, "
    "CAST(NULL AS TEXT) FROM dl_table_versions v JOIN dl_tables t ON t.table_id = v.table_id "
    "WHERE v.origin = 'written' AND (CAST(? AS TEXT) IS NULL OR t.name = ?) "
    "ORDER BY v.timestamp DESC, v.version DESC LIMIT ?"
)
