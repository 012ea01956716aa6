"""PostgreSQL: any number of writers, each holding the head row of its table for one short transaction."""

from __future__ import annotations

import select
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from deltasql.errors import ConfigError, DeltaSqlError, DurabilityWarning, UnsupportedError
from deltasql.ledger.contracts import LIVE
from deltasql.ledger.dialects.base import LOCK_TIMEOUT_SECONDS, EndLives, Insert, Mode, Row, Session, Write, rows_of
from deltasql.ledger.dialects.sqlstate import classify

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
except ImportError as error:
    raise UnsupportedError(
        "a PostgreSQL ledger needs the driver psycopg", hint="pip install 'deltasql[postgres]'", field="ledger"
    ) from error

# Wakes listeners (see `listening.py`). It carries nothing: who is woken asks the ledger what there is.
CHANNEL = "deltasql_commit"

# From this many rows on COPY, or one statement over arrays, is worth its own round trip.
_BULK_ROWS = 100

# The key of an advisory lock: whatever changes the lake as a whole takes it.
_LAKE_LOCK = 4_202_608_137_114_209

_DURABILITY = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')"
# Replicas that are connected while no one of them must have a commit before it is acknowledged.
_ASYNC_REPLICAS = (
    "SELECT COUNT(*) FROM pg_stat_replication "
    "WHERE state = 'streaming' AND current_setting('synchronous_standby_names') = ''"
)


class PostgresSession(Session):
    """Statements that do not wait for each other are sent together: most of a commit's time would be such waits."""

    _connection: psycopg.Connection[tuple[Any, ...]]

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], dialect: PostgresDialect) -> None:
        super().__init__(connection, dialect)
        # The statement that begins the transaction; it goes with the first one that is asked.
        self._beginning: str | None = None
        self._announcing = False

    def begin(self, mode: Mode) -> None:
        self._beginning = self._dialect.begin_write if mode == "write" else self._dialect.begin_read
        self._announcing = False

    def commit(self) -> None:
        if self._unbegun():
            return
        if not self._announcing:
            self._connection.execute("COMMIT")
            return
        with self._connection.pipeline():
            self._connection.execute("COMMIT")
            # After the commit and outside of it: inside, all who commit to this database would queue for one lock.
            self._connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))

    def roll_back(self) -> None:
        if not self._unbegun():
            self._connection.execute("ROLLBACK")

    def usable(self) -> bool:
        if self._connection.closed:
            return False
        # A server has nothing to say to an idle connection but farewell.
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)

    def batches(self, statement: str, parameters: Row, size: int) -> Iterator[list[tuple[Any, ...]]]:
        self._start()
        # A cursor of the server's: the client would read the whole answer into memory.
        with self._connection.cursor(name="batches") as cursor:
            cursor.execute(self._spell(statement).encode(), parameters)
            while rows := cursor.fetchmany(size):
                yield rows

    def send(self, writes: Sequence[Write]) -> list[int]:
        small: list[tuple[int, Any]] = []
        counts = [0] * len(writes)
        with self._connection.pipeline():
            self._start()
            for place, write in enumerate(writes):
                if not isinstance(write, Insert) or len(write.rows) < _BULK_ROWS:
                    small.append((place, self._queue(write)))
        for place, cursor in small:
            counts[place] = 0 if cursor is None else cursor.rowcount
        for place, write in enumerate(writes):
            if isinstance(write, Insert) and len(write.rows) >= _BULK_ROWS:
                counts[place] = self._copy(write)
        return counts

    def announce(self) -> None:
        self._announcing = True

    def lock_lake(self) -> None:
        self.row("SELECT pg_advisory_xact_lock(?)", (_LAKE_LOCK,))

    def _execute(self, statement: str, parameters: Row) -> Any:
        query = self._spell(statement).encode()
        if self._beginning is None:
            return self._connection.execute(query, parameters)
        with self._connection.pipeline():
            self._start()
            return self._connection.execute(query, parameters)

    def _start(self) -> None:
        if self._beginning is not None:
            statement, self._beginning = self._beginning, None
            self._connection.execute(statement.encode())

    def _unbegun(self) -> bool:
        """Whether nothing was asked, so that there is nothing to end."""
        unbegun, self._beginning = self._beginning is not None, None
        return unbegun

    def _queue(self, write: Write) -> Any:
        """Hand a write to the pipeline; its count is known when that is through."""
        if isinstance(write, EndLives) and len(write.keys) >= _BULK_ROWS:
            return self._connection.execute(_end_many(write).encode(), _end_many_parameters(write))
        statement, rows = rows_of(write)
        if not rows:
            return None
        cursor = self._connection.cursor()
        if len(rows) == 1:
            return cursor.execute(self._spell(statement).encode(), rows[0])
        cursor.executemany(self._spell(statement).encode(), rows)
        return cursor

    def _copy(self, write: Insert) -> int:
        columns = ", ".join(write.columns)
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {write.table} ({columns}) FROM STDIN".encode()) as copy,
        ):
            for row in write.rows:
                copy.write_row(row)
        return cursor.rowcount


def _end_many(write: EndLives) -> str:
    """One statement over arrays of keys: as many round trips as there are keys would take seconds."""
    names = ", ".join(write.key)
    # The first column of a key may be a number; all others are text.
    kinds = ["bigint[]" if column == "file_key" else "text[]" for column in write.key]
    arrays = ", ".join(f"%s::{kind}" for kind in kinds)
    same = " AND ".join(f"t.{column} = k.{column}" for column in write.key)
    return (
        f"UPDATE {write.table} t SET {write.end} = %s FROM unnest({arrays}) AS k({names}) "
        f"WHERE t.table_id = %s AND {same} AND t.{write.end} = {LIVE}"
    )


def _end_many_parameters(write: EndLives) -> list[Any]:
    return [write.version, *(list(column) for column in zip(*write.keys, strict=True)), write.table_id]


class PostgresDialect:
    name = "postgresql"
    # Each statement sees what was committed before it: a snapshot of the whole transaction would hide the winner.
    begin_write = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    # Of many processes that migrate at once one works, the others wait and find nothing to do.
    begin_migration = (begin_write, f"SELECT pg_advisory_xact_lock({_LAKE_LOCK})")
    lock_row = " FOR UPDATE"
    lock_head = " FOR UPDATE OF h"
    clock = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint"
    find_table = "SELECT 1 FROM pg_tables WHERE schemaname = ANY(current_schemas(false)) AND tablename = ?"
    keeps_connections = True

    def __init__(self, url: str) -> None:
        self._parameters, options = _split(url)
        self.url = url
        self.pool_size: int | None = _number(options, "pool_size", 10)
        self.pool_timeout = float(_number(options, "pool_timeout", 30))
        self._lock_timeout = _number(options, "lock_timeout", int(LOCK_TIMEOUT_SECONDS))
        self._durability = options.get("durability", "require")
        if self._durability not in ("require", "warn"):
            raise ConfigError(
                f"durability={self._durability} is no choice",
                hint="use durability=require, or durability=warn for a database that may lose commits",
                field="ledger",
            )

    def shown(self) -> str:
        known = {name: self._parameters[name] for name in ("host", "port", "dbname") if name in self._parameters}
        return "PostgreSQL " + " ".join(f"{name}={value}" for name, value in known.items())

    def exists(self) -> bool:
        return True

    def open(self) -> PostgresSession:
        return PostgresSession(self.connect(), self)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True)  # pyright: ignore[reportArgumentType]
            connection.execute(f"SET lock_timeout = '{self._lock_timeout}s'".encode())
        except psycopg.Error as error:
            raise classify(error, self.shown()) from error
        # One type for all integers: else each size of a number would be a prepared statement of its own.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        return connection

    def check(self, session: Session) -> None:
        settings = dict(session.rows(_DURABILITY))
        unsafe = [name for name in sorted(settings) if settings[name] == "off"]
        if unsafe:
            text = f"the server has {' and '.join(f'{name}=off' for name in unsafe)}: it may lose acknowledged commits"
            if self._durability == "require":
                raise ConfigError(
                    text,
                    hint=f"turn {' and '.join(unsafe)} on, or accept the loss with ?durability=warn in the URL",
                    field="ledger",
                )
            warnings.warn(text, DurabilityWarning, stacklevel=2)
        replicas = session.row(_ASYNC_REPLICAS)
        if replicas is not None and replicas[0]:
            warnings.warn(
                f"{replicas[0]} replicas follow this server and synchronous_standby_names is empty: "
                "a failover may lose acknowledged commits",
                DurabilityWarning,
                stacklevel=2,
            )

    def sqlalchemy_url(self) -> str:
        return "postgresql+psycopg://"

    def sqlalchemy_connection(self) -> Any:
        return self.connect()

    def respell(self, statement: str) -> str:
        return statement.replace("?", "%s")

    def classify(self, error: Exception) -> DeltaSqlError | None:
        return classify(error, self.shown()) if isinstance(error, psycopg.Error) else None


_OWN_OPTIONS = ("pool_size", "pool_timeout", "lock_timeout", "durability")


def _split(url: str) -> tuple[Mapping[str, Any], dict[str, str]]:
    """What libpq shall know, and our own options, out of one URL."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        own = {name: value for name, value in query if name in _OWN_OPTIONS}
        rest = urlencode([(name, value) for name, value in query if name not in _OWN_OPTIONS])
        parameters = conninfo_to_dict(urlunsplit(parts._replace(scheme="postgresql", query=rest)))
    except (ValueError, psycopg.Error) as error:
        # The text of libpq may quote the URL, and with it a password.
        raise ConfigError(
            "this is not the URL of a PostgreSQL database",
            hint="give one like postgresql://user@host:5432/database?sslmode=verify-full",
            field="ledger",
        ) from error
    defaults = {"application_name": "deltasql", "connect_timeout": "10"}
    return defaults | parameters, own


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise ConfigError(f"{name}={text} in the ledger's URL is no number from 1 to 100000", hint=name, field="ledger")
    return int(text)
