"""The schema of a ledger: what the migrations make, which one is wanted, and who may change it."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.script import ScriptDirectory

from deltasql.errors import ConfigError, LedgerError, LedgerVersionError
from deltasql.ledger.engine import SCHEMA_VERSION, VERSION_TABLE, Ledger, open_ledger, schema_version
from deltasql.ledger.migrate import alembic_config, migrate
from deltasql.ledger.tables import metadata

pytestmark = pytest.mark.unit

Schema = dict[str, dict[str, Any]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = open_ledger(url)
    yield ledger
    ledger.close()


def everything(path: Path) -> list[str]:
    """The whole database as text."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def schema_of(path: Path) -> Schema:
    """What a SQLite database says of its tables and indexes; in whatever order they were declared."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl\\_%' ESCAPE '\\'"
        ).fetchall()
        return {name: table_schema(connection, name, sql) for name, sql in tables if name != VERSION_TABLE}


def table_schema(connection: sqlite3.Connection, name: str, sql: str) -> dict[str, Any]:
    indexes: list[object] = []
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({name})").fetchall():
        columns = [row[2] for row in connection.execute(f"PRAGMA index_info({index})")]
        text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()[0]
        # Those that SQLite makes for a constraint have numbered names and no text.
        indexes.append((None if text is None else index, columns, unique, origin, partial, words(text)))
    return {
        "columns": [row[1:] for row in connection.execute(f"PRAGMA table_xinfo({name})")],
        "indexes": sorted(indexes, key=str),
        "constraints": sorted(re.findall(r"AUTOINCREMENT|CONSTRAINT|UNIQUE|CHECK|REFERENCES|COLLATE|DEFAULT", sql)),
        "named": sorted(part.split()[0] for part in sql.split("CONSTRAINT ")[1:]),
    }


def words(sql: str | None) -> list[str]:
    return [] if sql is None else sql.split()


def test_the_migrations_make_the_schema_that_the_definitions_describe(ledger: Ledger, tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/defined.db")
    metadata.create_all(engine)
    engine.dispose()
    migrated, defined = schema_of(tmp_path / "ledger.db"), schema_of(tmp_path / "defined.db")
    assert set(migrated) == set(metadata.tables)
    assert migrated == defined
    assert "AUTOINCREMENT" in migrated["dl_tables"]["constraints"]
    assert len(migrated["dl_tables"]["indexes"]) == 2
    assert migrated["dl_table_versions"]["named"] == ["dl_table_versions_token"]
    partial = migrated["dl_mirror_status"]["indexes"]
    assert any("WHERE" in text for *_, text in partial)


def test_the_schema_version_is_the_newest_migration(ledger: Ledger) -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [SCHEMA_VERSION]
    assert schema_version(ledger) == SCHEMA_VERSION


def test_opening_again_changes_nothing(ledger: Ledger, url: str, tmp_path: Path) -> None:
    before = everything(tmp_path / "ledger.db")
    open_ledger(url).close()
    assert everything(tmp_path / "ledger.db") == before


def test_migrating_again_does_nothing(ledger: Ledger, tmp_path: Path) -> None:
    with ledger.write() as session:
        session.execute("INSERT INTO dl_lake VALUES ('id', 'root', 1)")
    before = everything(tmp_path / "ledger.db")
    assert migrate(ledger) == SCHEMA_VERSION
    assert migrate(ledger) == SCHEMA_VERSION
    assert everything(tmp_path / "ledger.db") == before


def set_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = ?", (version,))


@pytest.mark.parametrize(
    ("version", "next_step"), [("0000", "deltasql migrate"), ("9999", "newer release")], ids=["older", "newer"]
)
def test_a_ledger_of_another_release_is_refused_and_left_alone(
    ledger: Ledger, url: str, tmp_path: Path, version: str, next_step: str
) -> None:
    ledger.close()
    set_version(tmp_path / "ledger.db", version)
    before = everything(tmp_path / "ledger.db")
    with pytest.raises(LedgerVersionError, match=f"{version}.*{SCHEMA_VERSION}") as caught:
        open_ledger(url)
    assert next_step in (caught.value.hint or "")
    assert caught.value.field == "ledger"
    assert everything(tmp_path / "ledger.db") == before


def test_a_newer_ledger_is_not_migrated_back(ledger: Ledger, tmp_path: Path) -> None:
    set_version(tmp_path / "ledger.db", "9999")
    with pytest.raises(LedgerVersionError, match="9999"):
        migrate(ledger)


def test_without_create_an_absent_ledger_is_refused_and_not_made(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ledger"):
        open_ledger(url, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_migration_that_fails_leaves_nothing(url: str, tmp_path: Path) -> None:
    # The last table that the migration makes is there already.
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute("CREATE TABLE dl_txn_actions (mine INTEGER)")
    before = everything(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="dl_txn_actions"):
        open_ledger(url)
    assert everything(tmp_path / "ledger.db") == before


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "a%23b%3Fc.db", "%2541.db", "Gr%C3%B6%C3%9Fe.db", "it's;.db"])
def test_the_file_is_the_one_that_is_named(tmp_path: Path, name: str) -> None:
    with_spaces = tmp_path / "a folder"
    with_spaces.mkdir()
    ledger = open_ledger(f"sqlite:///{with_spaces}/{name}")
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


def test_eight_processes_may_open_an_empty_database_at_once(url: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", EIGHT, url], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("8\n", 0), done.stderr
    ledger = open_ledger(url, create=False)
    with ledger.read() as session:
        assert session.rows(f"SELECT version_num FROM {VERSION_TABLE}") == [(SCHEMA_VERSION,)]
    ledger.close()
