"""The schema of a ledger: what the migrations make, which one is wanted, and who may change it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.script import ScriptDirectory

from deltasql.errors import ConfigError, DeltaSqlError, LedgerVersionError
from deltasql.ledger import migrate as migrate_module
from deltasql.ledger.engine import SCHEMA_VERSION, VERSION_TABLE, Ledger, open_ledger, schema_version
from deltasql.ledger.migrate import alembic_config, migrate
from deltasql.ledger.tables import Database, define
from ledger_backends import Room
from ledger_schemas import rows_of, schema_of

pytestmark = pytest.mark.unit


@pytest.fixture
def empty(empty_url: str) -> Iterator[Ledger]:
    """A database without a ledger."""
    ledger = Ledger(empty_url)
    yield ledger
    ledger.close()


def state(ledger: Ledger) -> tuple[Any, Any]:
    """The whole database."""
    return schema_of(ledger), rows_of(ledger)


@pytest.fixture
def defined(kind: Database, room: Room) -> Iterator[Ledger]:
    """A database with the tables as they are described, made by nothing else."""
    folder = room.folder / "defined"
    folder.mkdir()
    url = room.postgres().new_database() if kind == "postgresql" else f"{kind}:///{folder}/ledger.db"
    ledger = Ledger(url)
    engine = sqlalchemy.create_engine(ledger.dialect.sqlalchemy_url(), creator=ledger.dialect.sqlalchemy_connection)
    define(kind).create_all(engine)
    engine.dispose()
    yield ledger
    ledger.close()
    if kind == "postgresql":
        room.postgres().drop(url)


def sqlite_is_whole(schema: dict[str, Any]) -> None:
    assert set(schema) == set(define("sqlite").tables)
    assert "AUTOINCREMENT" in schema["dl_tables"]["constraints"]
    assert len(schema["dl_tables"]["indexes"]) == 2
    assert schema["dl_table_versions"]["named"] == ["dl_table_versions_token"]
    assert any("WHERE" in text for *_, text in schema["dl_mirror_status"]["indexes"])
    assert ("file_key", "BIGINT", 1, "0", 0, 0) in schema["dl_add_files"]["columns"]


def postgresql_is_whole(schema: dict[str, Any]) -> None:
    columns = {(row["table_name"], row["attname"]): row for row in schema["columns"]}
    assert {table for table, _ in columns} == set(define("postgresql").tables)
    number = columns["dl_tables", "table_id"]
    assert (number["attidentity"], number["attnotnull"], number["format_type"]) == ("d", True, "integer")
    assert columns["dl_table_versions", "db_user"]["default"] == "SESSION_USER"
    assert columns["dl_add_files", "file_key"]["default"] is not None
    named = {row["conname"]: row["pg_get_constraintdef"] for row in schema["constraints"]}
    assert named["dl_table_versions_token"] == "UNIQUE (table_id, token)"
    assert named["dl_tables_name_key"] == "UNIQUE (name)"
    indexes = {row["indexname"]: row["indexdef"] for row in schema["indexes"]}
    assert "WHERE (state <> 'SUCCESS'" in indexes["dl_mirror_status_unpublished"]
    assert len(schema["sequences"]) == 1


def duckdb_is_whole(schema: dict[str, Any]) -> None:
    columns = {(row["table_name"], row["column_name"]): row for row in schema["columns"]}
    assert {table for table, _ in columns} == set(define("duckdb").tables)
    assert "dl_tables_numbers" in columns["dl_tables", "table_id"]["column_default"]
    assert columns["dl_add_files", "file_key"]["is_nullable"] is False
    kinds = {(row["table_name"], row["constraint_type"]) for row in schema["constraints"]}
    assert {("dl_tables", "UNIQUE"), ("dl_tables", "PRIMARY KEY"), ("dl_tables", "NOT NULL")} <= kinds
    assert schema["indexes"] == []
    assert [row["sequence_name"] for row in schema["sequences"]] == ["dl_tables_numbers"]


WHOLE = {"sqlite": sqlite_is_whole, "postgresql": postgresql_is_whole, "duckdb": duckdb_is_whole}


def test_the_migrations_make_the_schema_that_the_definitions_describe(
    kind: str, empty: Ledger, defined: Ledger
) -> None:
    migrate(empty)
    migrated = schema_of(empty)
    # That the comparison sees what it shall compare.
    WHOLE[kind](migrated)
    assert migrated == schema_of(defined)


def test_a_ledger_that_was_migrated_twice_is_as_one_that_was_migrated_once(empty: Ledger, defined: Ledger) -> None:
    assert migrate(empty, "0001") == "0001"
    assert schema_of(empty) != schema_of(defined)
    assert migrate(empty) == SCHEMA_VERSION
    assert schema_of(empty) == schema_of(defined)


def test_the_schema_version_is_the_newest_migration(ledger: Ledger) -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [SCHEMA_VERSION]
    assert schema_version(ledger) == SCHEMA_VERSION


def test_opening_again_changes_nothing(ledger: Ledger, url: str) -> None:
    before = state(ledger)
    open_ledger(url).close()
    assert state(ledger) == before


def test_migrating_again_does_nothing(ledger: Ledger) -> None:
    with ledger.write() as session:
        session.change("INSERT INTO dl_lake VALUES ('id', 'root', 1)")
    before = state(ledger)
    assert migrate(ledger) == SCHEMA_VERSION
    assert migrate(ledger) == SCHEMA_VERSION
    assert state(ledger) == before


def set_version(ledger: Ledger, version: str) -> None:
    with ledger.write() as session:
        session.change(f"UPDATE {VERSION_TABLE} SET version_num = ?", (version,))


@pytest.mark.parametrize(
    ("version", "next_step"), [("0000", "deltasql migrate"), ("9999", "newer release")], ids=["older", "newer"]
)
def test_a_ledger_of_another_release_is_refused_and_left_alone(
    ledger: Ledger, url: str, version: str, next_step: str
) -> None:
    set_version(ledger, version)
    before = state(ledger)
    with pytest.raises(LedgerVersionError, match=f"{version}.*{SCHEMA_VERSION}") as caught:
        open_ledger(url)
    assert next_step in (caught.value.hint or "")
    assert caught.value.field == "ledger"
    assert state(ledger) == before


def test_a_ledger_of_the_first_release_is_refused_until_it_is_migrated(empty: Ledger, empty_url: str) -> None:
    migrate(empty, "0001")
    with pytest.raises(LedgerVersionError, match="0001") as caught:
        open_ledger(empty_url)
    assert "deltasql migrate --ledger" in (caught.value.hint or "")
    migrate(empty)
    open_ledger(empty_url, create=False).close()


def test_a_newer_ledger_is_not_migrated_back(ledger: Ledger) -> None:
    set_version(ledger, "9999")
    before = state(ledger)
    with pytest.raises(LedgerVersionError, match="9999"):
        migrate(ledger)
    assert state(ledger) == before


def test_without_create_an_absent_ledger_is_refused_and_not_made(
    kind: str, empty: Ledger, empty_url: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no ledger"):
        open_ledger(empty_url, create=False)
    if kind == "postgresql":
        assert rows_of(empty) == {}
    assert list(tmp_path.iterdir()) == []


def of_no_release(_: Ledger) -> None:
    """Nothing is there."""


def of_the_first_release(ledger: Ledger) -> None:
    migrate(ledger, "0001")
    with ledger.write() as session:
        session.change("INSERT INTO dl_tables (name, location, created_at) VALUES ('t', 'memory://t', 1)")


@pytest.mark.parametrize(
    # The last table that each migration makes is there already.
    ("prepare", "taken"),
    [(of_no_release, "dl_txn_actions"), (of_the_first_release, "dl_audit")],
    ids=["first", "second"],
)
def test_a_migration_that_fails_leaves_nothing(empty: Ledger, prepare: Callable[[Ledger], None], taken: str) -> None:
    prepare(empty)
    with empty.write() as session:
        session.change(f"CREATE TABLE {taken} (mine INTEGER)")
    before = state(empty)
    with pytest.raises(DeltaSqlError, match=taken):
        migrate(empty)
    assert state(empty) == before
    with empty.write() as session:
        session.change(f"DROP TABLE {taken}")
    assert migrate(empty) == SCHEMA_VERSION


def test_a_migration_that_is_broken_off_leaves_nothing(empty: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty, "0001")
    before = state(empty)
    upgrade = migrate_module.command.upgrade

    def interrupted(*arguments: Any) -> None:
        upgrade(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrate_module.command, "upgrade", interrupted)
        with pytest.raises(KeyboardInterrupt):
            migrate(empty)
    assert state(empty) == before
    assert migrate(empty) == SCHEMA_VERSION


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "a%23b%3Fc.db", "%2541.db", "Gr%C3%B6%C3%9Fe.db", "it's;.db"])
def test_the_file_is_the_one_that_is_named(tmp_path: Path, scheme: str, name: str) -> None:
    with_spaces = tmp_path / "a folder"
    with_spaces.mkdir()
    ledger = open_ledger(f"{scheme}:///{with_spaces}/{name}")
    ledger.close()
    (file,) = with_spaces.iterdir()
    assert "%" not in file.name or name.startswith(("50%25", "%2541"))
    # The URL it tells leads to the same file, from any folder and in any process.
    again = open_ledger(ledger.url, create=False)
    again.close()
    assert list(with_spaces.iterdir()) == [file]


EIGHT = """
import os, sys, traceback
from deltasql.ledger.engine import SCHEMA_VERSION, open_ledger, schema_version
import deltasql.ledger.migrate
ready, go = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(go)
            os.read(ready, 1)
            assert schema_version(open_ledger(sys.argv[1])) == SCHEMA_VERSION
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    children.append(child)
os.close(go)
print(sum(os.waitpid(child, 0)[1] == 0 for child in children))
"""


def test_eight_processes_may_open_an_empty_database_at_once(empty_url: str, defined: Ledger) -> None:
    done = subprocess.run([sys.executable, "-c", EIGHT, empty_url], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("8\n", 0), done.stderr
    ledger = open_ledger(empty_url, create=False)
    with ledger.read() as session:
        assert session.rows(f"SELECT version_num FROM {VERSION_TABLE}") == [(SCHEMA_VERSION,)]
    assert schema_of(ledger) == schema_of(defined)
    ledger.close()
