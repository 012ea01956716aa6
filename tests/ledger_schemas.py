"""What a ledger's database says of itself: its tables, whole, and how they are made."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

from deltasql.ledger.engine import VERSION_TABLE, Ledger

Rows = dict[str, list[dict[str, Any]]]

_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    "duckdb": "SELECT table_name FROM duckdb_tables()",
}


def rows_of(ledger: Ledger) -> Rows:
    """Every row of every table, by the names of its columns."""
    with closing(ledger.dialect.connect()) as connection:
        names = [row[0] for row in connection.execute(_TABLES[ledger.dialect.name]).fetchall()]
        return {name: _rows(connection, f"SELECT * FROM {name}") for name in sorted(names)}


def schema_of(ledger: Ledger) -> dict[str, Any]:
    """Columns, keys, constraints, indexes and counters, in whatever order they were declared."""
    with closing(ledger.dialect.connect()) as connection:
        return _SCHEMAS[ledger.dialect.name](connection)


def _rows(connection: Any, query: str) -> list[dict[str, Any]]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return sorted((dict(zip(names, row, strict=True)) for row in cursor.fetchall()), key=str)


def _sqlite(connection: Any) -> dict[str, Any]:
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl\\_%' ESCAPE '\\'"
    ).fetchall()
    return {name: _sqlite_table(connection, name, sql) for name, sql in tables if name != VERSION_TABLE}


def _sqlite_table(connection: Any, name: str, sql: str) -> dict[str, Any]:
    indexes: list[object] = []
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({name})").fetchall():
        columns = [row[2] for row in connection.execute(f"PRAGMA index_info({index})")]
        text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()[0]
        # Those that SQLite makes for a constraint have numbered names and no text.
        indexes.append((None if text is None else index, columns, unique, origin, partial, (text or "").split()))
    return {
        "columns": [row[1:] for row in connection.execute(f"PRAGMA table_xinfo({name})")],
        "indexes": sorted(indexes, key=str),
        "constraints": sorted(re.findall(r"AUTOINCREMENT|CONSTRAINT|UNIQUE|CHECK|REFERENCES|COLLATE|DEFAULT", sql)),
        "named": sorted(part.split()[0] for part in sql.split("CONSTRAINT ")[1:]),
    }


_POSTGRESQL = {
    "columns": (
        "SELECT c.relname AS table_name, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid) AS default FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
        "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0"
    ),
    "constraints": (
        "SELECT conrelid::regclass::text AS table_name, conname, contype, pg_get_constraintdef(oid) "
        "FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
    ),
    "indexes": "SELECT tablename AS table_name, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "sequences": (
        "SELECT sequencename, data_type::text, start_value, min_value, max_value, increment_by, cycle "
        "FROM pg_sequences WHERE schemaname = 'public'"
    ),
}

_DUCKDB = {
    "columns": (
        "SELECT table_name, column_index, column_name, data_type, is_nullable, column_default "
        "FROM duckdb_columns() WHERE NOT internal"
    ),
    "constraints": (
        "SELECT table_name, constraint_type, constraint_column_names, constraint_name, constraint_text "
        "FROM duckdb_constraints()"
    ),
    "indexes": "SELECT table_name, index_name, sql FROM duckdb_indexes()",
    "sequences": "SELECT sequence_name, start_value, min_value, max_value, increment_by, cycle FROM duckdb_sequences()",
}


def _catalog(queries: dict[str, str]) -> Any:
    def ask(connection: Any) -> dict[str, Any]:
        found = {part: _rows(connection, query) for part, query in queries.items()}
        return {part: [row for row in rows if row.get("table_name") != VERSION_TABLE] for part, rows in found.items()}

    return ask


_SCHEMAS = {"sqlite": _sqlite, "postgresql": _catalog(_POSTGRESQL), "duckdb": _catalog(_DUCKDB)}
