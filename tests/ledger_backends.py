"""The ledgers that one suite runs over. A new database joins by a function of its own in `BACKENDS`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from deltasql.ledger.contracts import CommitDraft, Outbox, TableEntry, TxnLogReader, TxnLogWriter
from deltasql.ledger.engine import Ledger, open_ledger
from deltasql.ledger.memory import MemoryLedger
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.outcomes import Committed
from deltasql.protocol.actions import Action
from ledger_samples import creation, draft, paths
from postgres_server import PostgresServer


class LedgerUnderTest(msgspec.Struct, kw_only=True):
    """An empty ledger, and what a test may ask of it beyond its three sides."""

    writer: TxnLogWriter
    reader: TxnLogReader
    outbox: Outbox
    # The outbox as another publisher would open it.
    other_outbox: Outbox
    # Stops the ledger's clock at a time in milliseconds.
    set_clock: Callable[[int], None]
    close: Callable[[], None]
    # Where other processes can open it; None where they cannot.
    url: str | None = None

    def create(self, name: str = "t", *actions: Action) -> TableEntry:
        """A new table, at version 0."""
        self.commit(creation(name, *actions))
        return self.reader.table(name)

    def append(self, table: TableEntry, *actions: Action, **values: object) -> int:
        """The version that the actions were committed as."""
        return self.commit(draft(table.name, *actions, **values))[0].version

    def commit(self, *drafts: CommitDraft) -> tuple[Committed, ...]:
        outcome = self.writer.commit(drafts)
        assert isinstance(outcome, tuple), outcome
        return outcome

    def facts(self) -> object:
        """Everything there is to see. What was refused must leave it as it was."""
        return [
            (
                entry,
                list(self.reader.commits(entry, 0, 1_000)),
                self.outbox.status(entry),
                self.outbox.mirror_head(entry),
                paths(self.reader.files(entry, self.reader.head(entry).version)),
            )
            for entry in self.reader.tables()
        ]


def sql_ledger(ledger: Ledger, drop: Callable[[], None] = lambda: None) -> LedgerUnderTest:
    def set_clock(milliseconds: int) -> None:
        ledger.dialect.clock = str(milliseconds)

    def close() -> None:
        ledger.close()
        drop()

    return LedgerUnderTest(
        writer=SqlTxnLogWriter(ledger),
        reader=SqlTxnLogReader(ledger),
        outbox=SqlOutbox(ledger),
        other_outbox=SqlOutbox(ledger),
        set_clock=set_clock,
        close=close,
        url=ledger.url,
    )


class Room(msgspec.Struct):
    """Where a ledger may be made: in a folder of its own, beside templates that are made once for the whole run."""

    folder: Path
    made_once: Path
    postgres: Callable[[], PostgresServer]

    def template(self, name: str, scheme: str) -> Path:
        """A file with an empty ledger, migrated once for all tests: they are not about that."""
        file = self.made_once / name
        if not file.exists():
            open_ledger(f"{scheme}:///{file}").close()
        return file


def _sqlite(room: Room) -> LedgerUnderTest:
    shutil.copyfile(room.template("ledger.db", "sqlite"), room.folder / "ledger.db")
    return sql_ledger(open_ledger(f"sqlite:///{room.folder}/ledger.db"))


def _duckdb(room: Room) -> LedgerUnderTest:
    shutil.copyfile(room.template("ledger.duckdb", "duckdb"), room.folder / "ledger.duckdb")
    return sql_ledger(open_ledger(f"duckdb:///{room.folder}/ledger.duckdb"))


def _postgresql(room: Room) -> LedgerUnderTest:
    url = postgres_ledger(room.postgres(), room.made_once)
    return sql_ledger(open_ledger(url), drop=lambda: room.postgres().drop(url))


def postgres_ledger(server: PostgresServer, made_once: Path) -> str:
    """The URL of a fresh, empty ledger on a server."""
    note = made_once / "postgresql"
    if not note.exists():
        template = server.new_database()
        open_ledger(template).close()
        note.write_text(template)
    return server.new_database(note.read_text())


def _memory(_room: Room) -> LedgerUnderTest:
    stopped: list[int] = []
    ledger = MemoryLedger(clock=lambda: stopped[-1] if stopped else time.time_ns() // 1_000_000)
    return LedgerUnderTest(
        writer=ledger.writer,
        reader=ledger.reader,
        outbox=ledger.outbox,
        other_outbox=ledger.outbox,
        set_clock=stopped.append,
        close=lambda: None,
    )


# Each makes an empty ledger.
BACKENDS: dict[str, Callable[[Room], LedgerUnderTest]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "duckdb": _duckdb,
    "memory": _memory,
}

# Those that other processes can open.
SHARED = ("sqlite", "postgresql", "duckdb")
