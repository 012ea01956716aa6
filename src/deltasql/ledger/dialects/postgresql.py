"""PostgreSQL: any number of writers, each holding the head row of its table for one short transaction."""

from __future__ import annotations

import re
import select
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import unquote

from deltasql.errors import ConfigError, DeltaSqlError, DurabilityWarning, LedgerUnavailableError, UnsupportedError
from deltasql.ledger.contracts import LIVE
from deltasql.ledger.dialects.base import LOCK_TIMEOUT_SECONDS, EndLives, Insert, Mode, Row, Session, Write, rows_of
from deltasql.ledger.dialects.sqlstate import classify

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Conninfo
    from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
except ImportError as error:
    raise UnsupportedError(
        "a PostgreSQL ledger needs the driver psycopg", hint="pip install 'deltasql[postgres]'", field="ledger"
    ) from error

# Wakes listeners (see `listening.py`). It carries nothing: who is woken asks the ledger what there is.
CHANNEL = "deltasql_commit"

_NOTIFY = b"SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')"

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
        # Whether the commit went with the last writes.
        self._ended = False

    def begin(self, mode: Mode) -> None:
        self._mode = mode
        beginnings = {"look": None, "read": self._dialect.begin_read, "write": self._dialect.begin_write}
        self._beginning = beginnings[mode]
        self._announcing = self._ended = False

    def commit(self) -> None:
        if self._ended or self._unbegun():
            return
        committed = None
        try:
            with self._connection.pipeline():
                committed = self._queue_commit()
        except psycopg.Error:
            # A notice that could not be sent takes nothing back.
            if committed is None or committed.statusmessage != "COMMIT":
                raise

    def may_end_with(self, writes: Sequence[Write]) -> bool:
        return all(len(rows_of(write)[1]) == 1 for write in writes)

    def end_with(self, writes: Sequence[Write]) -> None:
        """One wait less while the head is locked. Whatever fails before the COMMIT makes the server skip it."""
        pairs = [rows_of(write) for write in writes]
        statement = self._spell(_merged(tuple(statement for statement, _ in pairs), sure=True)).encode()
        committed = None
        try:
            with self._connection.pipeline():
                self._start()
                self._connection.execute(statement, [value for _, rows in pairs for value in rows[0]])
                committed = self._queue_commit()
        except psycopg.Error:
            # A notice that could not be sent takes nothing back.
            if committed is None or committed.statusmessage != "COMMIT":
                raise
        self._ended = True

    def _queue_commit(self) -> Any:
        committed = self._connection.execute("COMMIT")
        if self._announcing:
            # After the commit and outside of it: inside, all who commit to this database would queue for one lock.
            # A notice need not be durable: to wait for the disk a second time would be for nothing.
            self._connection.execute(_NOTIFY, (CHANNEL,))
        return committed

    def roll_back(self) -> None:
        if not self._unbegun() and self._mode != "look":
            self._connection.execute("ROLLBACK")

    def usable(self) -> bool:
        if self._connection.closed:
            return False
        # A server has nothing to say to an idle connection but farewell.
        poll = select.poll()
        poll.register(self._connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)

    def row_of_each(self, questions: Sequence[tuple[str, Row]]) -> list[tuple[Any, ...] | None]:
        with self._connection.pipeline():
            self._start()
            answers = [
                self._connection.execute(self._spell(statement).encode(), parameters)
                for statement, parameters in questions
            ]
        return [answer.fetchone() for answer in answers]

    def batches(self, statement: str, parameters: Row, size: int) -> Iterator[list[tuple[Any, ...]]]:
        self._start()
        # A cursor of the server's: the client would read the whole answer into memory.
        with self._connection.cursor(name="batches") as cursor:
            cursor.execute(self._spell(statement).encode(), parameters)
            while rows := cursor.fetchmany(size):
                yield rows

    def send(self, writes: Sequence[Write]) -> list[int]:
        counts = [0] * len(writes)
        sized = [(place, write, *rows_of(write)) for place, write in enumerate(writes)]
        single = [(place, statement, rows[0]) for place, _, statement, rows in sized if len(rows) == 1]
        large = [(place, write) for place, write, _, rows in sized if len(rows) >= _BULK_ROWS]
        with self._connection.pipeline():
            self._start()
            merged = self._merge([(statement, row) for _, statement, row in single])
            cursors = [
                (place, self._queue(statement, rows))
                for place, _, statement, rows in sized
                if 1 < len(rows) < _BULK_ROWS
            ]
            cursors += [(place, self._end_many(write)) for place, write in large if isinstance(write, EndLives)]
        for (place, _, _), touched in zip(single, merged(), strict=True):
            counts[place] = touched
        for place, cursor in cursors:
            counts[place] = cursor.rowcount
        for place, write in large:
            if isinstance(write, Insert):
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

    def _merge(self, writes: Sequence[tuple[str, Row]]) -> Callable[[], Sequence[int]]:
        """Queue writes of one row each as one statement: all see the same state, none touches a row of another's."""
        if not writes:
            return tuple
        if len(writes) == 1:
            statement, row = writes[0]
            cursor = self._connection.execute(self._spell(statement).encode(), row)
            return lambda: [cursor.rowcount]
        statement = self._spell(_merged(tuple(statement for statement, _ in writes))).encode()
        answer = self._connection.execute(statement, [value for _, row in writes for value in row])
        return lambda: answer.fetchone() or ()

    def _queue(self, statement: str, rows: Sequence[Row]) -> Any:
        """Hand a write of several rows to the pipeline; its count is known when that is through."""
        cursor = self._connection.cursor()
        cursor.executemany(self._spell(statement).encode(), rows)
        return cursor

    def _end_many(self, write: EndLives) -> Any:
        """One statement over arrays of keys: as many round trips as there are keys would take seconds."""
        return self._connection.execute(self._spell(_end_many(write)).encode(), _end_many_parameters(write))

    def _copy(self, write: Insert) -> int:
        columns = ", ".join(write.columns)
        with self._connection.cursor() as cursor:
            with cursor.copy(f"COPY {write.table} ({columns}) FROM STDIN".encode()) as copy:
                for row in write.rows:
                    copy.write_row(row)
            # Known once the copy has ended, and as long as the cursor is open.
            return cursor.rowcount


@lru_cache(maxsize=256)
def _merged(statements: tuple[str, ...], *, sure: bool = False) -> str:
    """Statements as parts of one, which answers with the number of rows that each touched.

    With `sure` it fails, by a division by zero, unless the last one touched a row.
    """
    parts = ", ".join(f"w{number} AS ({statement} RETURNING 1)" for number, statement in enumerate(statements))
    counts = ", ".join(f"(SELECT COUNT(*) FROM w{number})" for number in range(len(statements)))
    if sure:
        counts += f", 1 / (SELECT COUNT(*) FROM w{len(statements) - 1})"
    return f"WITH {parts} SELECT {counts}"


def _end_many(write: EndLives) -> str:
    names = ", ".join(write.key)
    # The first column of a key may be a number; all others are text.
    kinds = ["bigint[]" if column == "file_key" else "text[]" for column in write.key]
    arrays = ", ".join(f"?::{kind}" for kind in kinds)
    same = " AND ".join(f"t.{column} = k.{column}" for column in write.key)
    return (
        f"UPDATE {write.table} t SET {write.end} = ? FROM unnest({arrays}) AS k({names}) "
        f"WHERE t.table_id = ? AND {same} AND t.{write.end} = {LIVE}"
    )


def _end_many_parameters(write: EndLives) -> list[Any]:
    return [write.version, *(list(column) for column in zip(*write.keys, strict=True)), write.table_id]


class PostgresDialect:
    name = "postgresql"
    # Each statement sees what was committed before it: a snapshot of the whole transaction would hide the winner.
    # Without READ WRITE: asked for it, a standby would not answer with the code of a server that only reads.
    begin_write = "BEGIN ISOLATION LEVEL READ COMMITTED"
    begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    # Of many processes that migrate at once one works, the others wait and find nothing to do.
    begin_migration = (begin_write, f"SELECT pg_advisory_xact_lock({_LAKE_LOCK})")
    lock_row = " FOR UPDATE"
    clock = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint"
    members = "= ANY(?::integer[])"
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
        connection = self.sqlalchemy_connection()
        # These take the server's own placeholders, so that no statement is taken apart before it is sent.
        connection.cursor_factory = psycopg.RawCursor
        connection.server_cursor_factory = psycopg.RawServerCursor
        return connection

    def sqlalchemy_connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True)  # pyright: ignore[reportArgumentType]
            connection.execute(f"SET lock_timeout = '{self._lock_timeout}s'".encode())
            # What is asked again and again looks up single rows: to plan it anew each time would cost more than it.
            connection.execute("SET plan_cache_mode = force_generic_plan")
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

    def text_or_mark(self, column: str) -> str:
        return column

    def arrow(self, session: Session, statement: str, parameters: Row, size: int) -> Iterator[Any]:
        del session, size
        from adbc_driver_postgresql import dbapi

        try:
            with (
                dbapi.connect(make_conninfo(**self._parameters)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(self.respell(statement), tuple(parameters))
                yield from cursor.fetch_record_batch()
        except dbapi.Error as error:
            raise LedgerUnavailableError(
                f"the ledger in {self.shown()} could not be read as Arrow ({getattr(error, 'sqlstate', None)})",
                hint="make sure the server runs and can be reached, then try again",
            ) from error

    def index_hint(self, name: str) -> str:
        del name
        return ""

    def list_of(self, numbers: Sequence[int]) -> Any:
        return list(numbers)

    def respell(self, statement: str) -> str:
        numbers = count(1)
        return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)

    def classify(self, error: Exception) -> DeltaSqlError | None:
        return classify(error, self.shown()) if isinstance(error, psycopg.Error) else None


_OWN_OPTIONS = ("pool_size", "pool_timeout", "lock_timeout", "durability")


def _split(url: str) -> tuple[Mapping[str, Any], dict[str, str]]:
    """What libpq shall know, and our own options, out of one URL."""
    place, _, query = url.partition("?")
    own: dict[str, str] = {}
    rest: list[str] = []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name in _OWN_OPTIONS:
            own[name] = unquote(value)
            continue
        # Only what looks like a name is repeated: a misspelled URL may have its password here.
        if name.isidentifier() and name not in _libpq_options():
            raise ConfigError(
                f"there is no option {name} for the URL of a PostgreSQL ledger",
                hint=f"use {', '.join(_OWN_OPTIONS)}, or one of libpq's, such as sslmode",
                field="ledger",
            )
        # As it stands: libpq decodes it in a way of its own.
        rest.append(option)
    try:
        parameters = conninfo_to_dict("?".join([place, "&".join(rest)]) if rest else place)
    except psycopg.Error:
        # Not even as the cause: the text of libpq may quote the URL, and with it a password.
        raise ConfigError(
            "this is not the URL of a PostgreSQL database",
            hint="give one like postgresql://user@host:5432/database?sslmode=verify-full",
            field="ledger",
        ) from None
    # What a database cannot spell it shall refuse itself, with a code.
    defaults = {"application_name": "deltasql", "client_encoding": "UTF8", "connect_timeout": "10"}
    return defaults | parameters, own


def _libpq_options() -> set[str]:
    # The alias that libpq knows from JDBC is not among its own.
    return {option.keyword.decode() for option in Conninfo.get_defaults()} | {"ssl"}


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise ConfigError(f"{name}={text} in the ledger's URL is no number from 1 to 100000", hint=name, field="ledger")
    return int(text)
