"""The URL of a ledger: which database it asks for, where that is, and what it may not say."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest

from deltasql.errors import ConfigError, UnsupportedError
from deltasql.ledger.dialects import dialect_for
from deltasql.ledger.dialects.duckdb import DuckdbDialect
from deltasql.ledger.dialects.postgresql import PostgresDialect
from deltasql.ledger.dialects.sqlite import SqliteDialect
from deltasql.ledger.engine import Ledger

pytestmark = pytest.mark.unit

NO_LEDGER = [
    *("", "lake.db", "://", "mysql://x", "file:///x"),
    *("sqlite", "sqlite:", "sqlite:lake.db", "sqlite:/lake.db", "SQLITE:///x"),
    *("duckdb", "duckdb:", "duckdb:lake.db", "duckdb:/lake.db", "DUCKDB:///x"),
    *("sqlite://", "sqlite:///", "sqlite://lake.db", "sqlite://host/lake.db", "sqlite://["),
    *("duckdb://", "duckdb:///", "duckdb://lake.db", "duckdb://host/lake.db", "duckdb://["),
    *("sqlite:///:memory:", "sqlite:///a%00b", "sqlite:///a\0b", "sqlite:///lone\ud800"),
    *("duckdb:///:memory:", "duckdb:///a%00b", "duckdb:///a\0b", "duckdb:///lone\ud800"),
    *("sqlite:///lake.db?mode=ro", "sqlite:///lake.db#main", "sqlite:///a?b#c"),
    *("duckdb:///lake.db?access_mode=read_only", "duckdb:///lake.db#main"),
    *("postgresql", "postgresql:", "postgresql:/db", "postgresql+psycopg://h/db", "POSTGRESQL://h/db"),
    *("postgresql://u@[::1/db", "postgresql://u@h/db?=", "postgresql://u@h/db?sslmode", "postgresql://u@h/%zz"),
    *(None, 5, Path("lake.db"), b"sqlite:///lake.db"),
]


@pytest.mark.parametrize("url", NO_LEDGER, ids=ascii)
def test_what_is_no_url_of_a_ledger_is_refused(url: object) -> None:
    with pytest.raises(ConfigError) as caught:
        dialect_for(cast("str", url))
    assert caught.value.field == "ledger"
    assert caught.value.hint


SECRETS = [
    "mysql://user:canary@host/db",
    "postgresql:/user:canary@host/db",
    "postgresql://user:canary@[::1/db",
    "postgresql://user:canary@host/db?nonsense=1",
    "postgresql://user:canary@host/db?pool_size=none",
    "postgresql://user:canary@host/db?durability=none",
    "postgresql://user:?canary@host/db?pool_size=1",
    "postgresql://user@host/db?password=canary&pool_size=none",
    "postgresql://user@host/db?password=canary=1",
    "postgresql://user:canary%zz@host/db",
    "sqlite://user:canary@host/db",
    "duckdb:///lake.db?password=canary",
]


@pytest.mark.parametrize("url", SECRETS)
def test_a_refused_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dialect_for(url)
    # As a log would have it: with every error that led to this one, but not with the lines of this test.
    told = traceback.TracebackException.from_exception(caught.value)
    assert "canary" not in "".join(line for line in told.format() if not line.startswith("  File"))


@pytest.mark.parametrize(
    ("scheme", "dialect"), [("sqlite", SqliteDialect), ("duckdb", DuckdbDialect)], ids=["sqlite", "duckdb"]
)
def test_a_relative_path_is_that_of_the_folder_it_was_named_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, dialect: type[SqliteDialect | DuckdbDialect]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = dialect_for(f"{scheme}:///sub/lake.db")
    monkeypatch.chdir("/")
    assert isinstance(found, dialect)
    assert found.path == tmp_path / "sub/lake.db"
    assert found.url == f"{scheme}:///{tmp_path}/sub/lake.db"
    again = dialect_for(found.url)
    assert isinstance(again, dialect)
    assert again.path == found.path
    assert found.shown() == str(found.path)


# -- PostgreSQL's options ---------------------------------------------------------------------------------------------


def libpq(url: str) -> dict[str, str]:
    """What the driver is told, without what it is always told."""
    dialect = dialect_for(url)
    assert isinstance(dialect, PostgresDialect)
    always = ("application_name", "client_encoding")
    return {name: value for name, value in dialect._parameters.items() if name not in always}


def test_what_is_not_ours_is_handed_to_libpq_as_it_stands() -> None:
    standard = {"connect_timeout": "10"}
    assert libpq("postgresql://") == standard
    assert libpq("postgres://u@h/db") == standard | {"user": "u", "host": "h", "dbname": "db"}
    assert libpq("postgresql:///db?host=/run/pg") == standard | {"host": "/run/pg", "dbname": "db"}
    assert libpq("postgresql://h1:1,h2:2/db?target_session_attrs=read-write") == standard | {
        "host": "h1,h2",
        "port": "1,2",
        "dbname": "db",
        "target_session_attrs": "read-write",
    }
    assert libpq("postgresql://h/?sslmode=verify-full&pool_size=3&sslrootcert=%2Fa%20b") == standard | {
        "host": "h",
        "sslmode": "verify-full",
        "sslrootcert": "/a b",
    }
    assert libpq("postgresql://h?connect_timeout=3&ssl=true") == {
        "host": "h",
        "connect_timeout": "3",
        "sslmode": "require",
    }


@pytest.mark.parametrize("password", ["p#w", "p%25w", "p+w", "p\tw", "p%40%2F%3Fw", "p%20w", "ü"])
def test_a_password_arrives_as_it_was_given(password: str) -> None:
    assert libpq(f"postgresql://u:{password}@h/db?pool_size=1")["password"] == unquote(password)
    if "#" not in password:
        assert libpq(f"postgresql://u@h/db?pool_size=1&password={password}")["password"] == unquote(password)


def test_a_setting_of_the_session_may_hold_spaces() -> None:
    assert libpq("postgresql://h/db?options=-c%20search_path%3Dlake")["options"] == "-c search_path=lake"


def test_our_own_options_are_numbers_with_defaults() -> None:
    plain = dialect_for("postgresql://h/db")
    assert isinstance(plain, PostgresDialect)
    assert (plain.pool_size, plain.pool_timeout, plain._lock_timeout, plain._durability) == (10, 30.0, 30, "require")
    given = dialect_for("postgresql://h/db?pool_size=2&pool_timeout=3&lock_timeout=4&durability=warn")
    assert isinstance(given, PostgresDialect)
    assert (given.pool_size, given.pool_timeout, given._lock_timeout, given._durability) == (2, 3.0, 4, "warn")


@pytest.mark.parametrize("name", ["pool_size", "pool_timeout", "lock_timeout"])
@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "many", "100001", "9" * 30, "²", "1%27"])
def test_a_number_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=") as caught:
        dialect_for(f"postgresql://h/db?{name}={value}")
    assert caught.value.field == "ledger"


@pytest.mark.parametrize("name", ["pool_sise", "nonsense", "POOL_SIZE", "mode"])
def test_an_option_that_nobody_knows_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no option {name} ") as caught:
        dialect_for(f"postgresql://h/db?{name}=1")
    assert "pool_size" in (caught.value.hint or "")


def test_a_durability_that_is_no_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="durability=maybe"):
        dialect_for("postgresql://h/db?durability=maybe")


def test_where_a_ledger_is_can_be_shown() -> None:
    url = "postgresql://user:canary@h:5433/db?sslpassword=canary&passfile=canary"
    assert dialect_for(url).shown() == "PostgreSQL host=h port=5433 dbname=db"


# -- every database ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "driver"), [("sqlite", "sqlite3"), ("duckdb", "duckdb"), ("postgresql", "psycopg")], ids=lambda x: x
)
def test_a_driver_is_only_loaded_where_its_database_is_wanted(scheme: str, driver: str) -> None:
    script = (
        "import sys; from deltasql.ledger.engine import Ledger; Ledger(sys.argv[1]);"
        "print(*sorted({'sqlite3', 'duckdb', 'psycopg', 'alembic', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, f"{scheme}:///x"], capture_output=True, text=True)
    assert done.stdout.split() == [driver], done.stderr


@pytest.mark.parametrize(
    ("scheme", "driver", "extra"), [("duckdb", "duckdb", "duckdb"), ("postgresql", "psycopg", "postgres")]
)
def test_a_driver_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, scheme: str, driver: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    monkeypatch.delitem(sys.modules, f"deltasql.ledger.dialects.{scheme}")
    with pytest.raises(UnsupportedError, match=driver) as caught:
        dialect_for(f"{scheme}://user:canary@host/db")
    assert f"deltasql[{extra}]" in (caught.value.hint or "")
    assert "canary" not in str(caught.value)


def test_the_clock_is_that_of_the_day_in_milliseconds(ledger: Ledger) -> None:
    before = time.time_ns() // 1_000_000
    with ledger.read() as session:
        now = session.now()
    # Some round to the millisecond.
    assert before - 1 <= now <= time.time_ns() // 1_000_000 + 1
