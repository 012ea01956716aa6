"""The four roles of a PostgreSQL ledger: what each may do, and what it may not."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ConfigError, DeltaSqlError, UnsupportedError
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.migrate import migrate
from deltasql.ledger.roles import ROLES, create_roles, role_statements
from postgres_server import PostgresServer

pytestmark = pytest.mark.contract

SCHEMA = pa.schema([("id", pa.int64())])
PREFIX = "roles_test"


@pytest.fixture
def urls(postgres: PostgresServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A ledger with one table, and its URL for a user of each role."""
    owner = postgres.new_database()
    with deltasql.connect(owner, root=str(tmp_path)) as lake:
        lake.create_table("t", SCHEMA)
    ledger = open_ledger(owner)
    create_roles(ledger, PREFIX)
    ledger.close()
    found = {"owner": owner}
    names: list[str] = []
    with postgres.admin(owner) as admin:
        for role in ROLES:
            user, password = f"u_{secrets.token_hex(6)}", secrets.token_hex(8)
            names.append(user)
            admin.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}' IN ROLE {PREFIX}_{role}".encode())
            parts = urlsplit(owner)
            found[role] = urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port}"))
    yield found
    postgres.drop(owner)
    with postgres.admin() as admin:
        for name in (*names, *(f"{PREFIX}_{role}" for role in ROLES)):
            admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
            admin.execute(f"DROP ROLE {name}".encode())


def test_a_writer_commits_and_cannot_publish(urls: dict[str, str]) -> None:
    with deltasql.connect(urls["writer"]) as lake:
        table = lake.table("t")
        table.append(pa.table({"id": [1, 2]}))
        assert table.delete("id = 1").version == 2
        assert lake.create_table("made", SCHEMA).version == 0
        with lake.transaction() as tx:
            tx.table("t").append(pa.table({"id": [3]}))
            tx.table("made").append(pa.table({"id": [4]}))
        with pytest.raises(ConfigError, match="42501") as caught:
            lake.mirror()
        assert "docs" in (caught.value.hint or "")
        assert table.mirror_head().published_version == -1


def test_a_publisher_publishes_and_cannot_commit(urls: dict[str, str]) -> None:
    with deltasql.connect(urls["publisher"]) as lake:
        assert lake.mirror().ok
        assert lake.table("t").mirror_head().published_version == 0
        with pytest.raises(ConfigError, match="42501"):
            lake.table("t").append(pa.table({"id": [1]}))
        assert lake.table("t").version == 0


def test_a_reader_reads_and_changes_nothing(urls: dict[str, str]) -> None:
    with deltasql.connect(urls["reader"]) as lake:
        table = lake.table("t")
        assert table.to_arrow().num_rows == 0
        assert [entry.action for entry in lake.audit()] == ["commit"]
        for change in (lambda: table.append(pa.table({"id": [1]})), lake.mirror):
            with pytest.raises(ConfigError, match="42501"):
                change()
        assert table.version == 0


def test_a_migrator_owns_the_tables(urls: dict[str, str], postgres: PostgresServer) -> None:
    ledger = open_ledger(urls["migrator"])
    migrate(ledger)
    ledger.close()
    with postgres.admin(urls["owner"]) as admin:
        owners = admin.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE tablename LIKE 'dl\\_%'").fetchall()
    assert owners == [(f"{PREFIX}_migrator",)]


def test_every_table_of_a_ledger_is_granted(urls: dict[str, str], postgres: PostgresServer) -> None:
    """A table that a migration brings must be given its place among the roles."""
    with postgres.admin(urls["owner"]) as admin:
        missing = admin.execute(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE 'dl\\_%' "
            f"AND NOT has_table_privilege('{PREFIX}_reader', tablename, 'SELECT')".encode()
        ).fetchall()
    assert missing == []


def test_roles_may_be_made_again(urls: dict[str, str]) -> None:
    ledger = open_ledger(urls["owner"])
    assert create_roles(ledger, PREFIX) == role_statements(PREFIX)
    ledger.close()


@pytest.mark.parametrize("prefix", ["", "A", "a b", "a;DROP", 'a"b', "a" * 60, "ü"])
def test_a_prefix_is_a_plain_name(prefix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        role_statements(prefix)
    assert caught.value.field == "prefix"


def test_a_file_knows_no_roles(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/l.db")
    with pytest.raises(UnsupportedError):
        create_roles(ledger)
    ledger.close()


def test_the_audit_names_the_database_user(urls: dict[str, str]) -> None:
    user = urlsplit(urls["writer"]).username
    with deltasql.connect(urls["writer"], actor="the nightly job") as lake:
        lake.table("t").append(pa.table({"id": [1]}))
        newest = lake.audit("t")[0]
    assert (newest.action, newest.version, newest.actor, newest.db_user) == ("commit", 1, "the nightly job", user)


def test_no_role_has_more_than_it_was_given(urls: dict[str, str]) -> None:
    with deltasql.connect(urls["publisher"]) as lake, pytest.raises(DeltaSqlError):
        lake.create_table("no", SCHEMA)
