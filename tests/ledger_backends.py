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


def sql_ledger(ledger: Ledger) -> LedgerUnderTest:
    def set_clock(milliseconds: int) -> None:
        ledger.dialect.clock = str(milliseconds)

    return LedgerUnderTest(
        writer=SqlTxnLogWriter(ledger),
        reader=SqlTxnLogReader(ledger),
        outbox=SqlOutbox(ledger),
        other_outbox=SqlOutbox(ledger),
        set_clock=set_clock,
        close=ledger.close,
        url=ledger.url,
    )


def _sqlite(folder: Path, made_once: Path) -> LedgerUnderTest:
    # Migrated once for all tests: they are not about that.
    template = made_once / "ledger.db"
    if not template.exists():
        open_ledger(f"sqlite:///{template}").close()
    shutil.copyfile(template, folder / "ledger.db")
    return sql_ledger(open_ledger(f"sqlite:///{folder}/ledger.db"))


def _memory(_folder: Path, _made_once: Path) -> LedgerUnderTest:
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


# Each makes an empty ledger in a folder of its own; a second folder is kept for the whole run.
BACKENDS: dict[str, Callable[[Path, Path], LedgerUnderTest]] = {"sqlite": _sqlite, "memory": _memory}

# Those that other processes can open.
SHARED = ("sqlite",)
