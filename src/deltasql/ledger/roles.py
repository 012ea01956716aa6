"""Database roles for the four kinds of people and programs that meet a ledger in PostgreSQL."""

from __future__ import annotations

import re

from deltasql.errors import ConfigError, UnsupportedError
from deltasql.ledger.engine import VERSION_TABLE, Ledger
from deltasql.ledger.layout import PLACE_COLUMNS
from deltasql.ledger.rows import ALL_TABLES

ROLES = ("migrator", "writer", "publisher", "reader")
DEFAULT_PREFIX = "deltasql"

_TABLES = (
    "dl_lake",
    "dl_tables",
    "dl_table_heads",
    "dl_table_versions",
    *(table.name for table in ALL_TABLES),
    "dl_partitions",
    "dl_skipping_columns",
    "dl_mirror_status",
    "dl_mirror_heads",
    "dl_leases",
    "dl_audit",
    VERSION_TABLE,
)
# What each may do beyond reading everything. A writer cannot call a version published, a publisher cannot commit.
_WRITER_INSERTS = tuple(name for name in _TABLES if name not in ("dl_lake", "dl_leases", VERSION_TABLE))
_GRANTS = {
    "writer": (
        f"INSERT ON {', '.join(_WRITER_INSERTS)}",
        "UPDATE ON dl_table_heads",
        "DELETE ON dl_skipping_columns",
        f"UPDATE ({', '.join(PLACE_COLUMNS)}) ON dl_add_files",
        *(f"UPDATE ({table.end}) ON {table.name}" for table in ALL_TABLES if table.end),
    ),
    "publisher": (
        "INSERT ON dl_leases, dl_audit",
        "UPDATE ON dl_leases, dl_mirror_status, dl_mirror_heads",
    ),
}


def role_statements(prefix: str = DEFAULT_PREFIX) -> list[str]:
    """The SQL that makes the roles, or brings those that are there up to this release."""
    # It becomes part of statements, so it may be nothing but a plain name.
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", prefix):
        raise ConfigError(
            f"{prefix!r:.60} is no beginning for the names of roles",
            hint="use small letters, digits and underscores",
            field="prefix",
        )
    names = {role: f"{prefix}_{role}" for role in ROLES}
    every = ", ".join(_TABLES)
    return [
        *(_create(name) for name in names.values()),
        f"GRANT SELECT ON {every} TO {', '.join(names.values())}",
        *(f"GRANT {what} TO {names[role]}" for role, grants in _GRANTS.items() for what in grants),
        *(f"ALTER TABLE {table} OWNER TO {names['migrator']}" for table in _TABLES),
        _grant_schema("USAGE", list(names.values())),
        _grant_schema("CREATE", [names["migrator"]]),
    ]


def _grant_schema(what: str, names: list[str]) -> str:
    """On the schema that the ledger lives in, whatever its name."""
    grant = f"GRANT {what} ON SCHEMA %I TO {', '.join(names)}"
    return f"DO $$ BEGIN EXECUTE format('{grant}', current_schema()); END $$"


def _create(name: str) -> str:
    """PostgreSQL has no CREATE ROLE IF NOT EXISTS."""
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN "
        f"CREATE ROLE {name} NOLOGIN; END IF; END $$"
    )


def create_roles(ledger: Ledger, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Make the roles in one transaction and return what was run. May be run again, after a migration say."""
    if ledger.dialect.name != "postgresql":
        raise UnsupportedError(
            f"a {ledger.dialect.name} ledger is a file and knows no roles",
            hint="guard the file with the permissions of the system",
            field="ledger",
        )
    statements = role_statements(prefix)
    with ledger.write() as session:
        session.lock_lake()
        for statement in statements:
            session.change(statement)
    return statements
