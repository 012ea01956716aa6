"""What every verb needs: the ledger's sides, and the stores that tables live in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from deltasql.errors import ConflictError
from deltasql.events import Sink, TableCommitted, ignore
from deltasql.ledger.audit import SqlAudit, this_actor
from deltasql.ledger.contracts import CommitDraft, Outbox, TxnLogReader, TxnLogWriter
from deltasql.ledger.engine import open_ledger
from deltasql.ledger.lifecycle import Lifecycle, SqlLifecycle
from deltasql.ledger.listening import Listener, listen
from deltasql.ledger.outbox import SqlOutbox
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.records import check_text
from deltasql.ledger.registry import settle_root
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.outcomes import Committed, Conflict
from deltasql.storage.base import ObjectStore
from deltasql.storage.locations import normalise_url, open_store


class Services(msgspec.Struct, frozen=True, kw_only=True):
    ledger: str
    # Where new tables get their folders, once that was said.
    root: str | None
    reader: TxnLogReader
    writer: TxnLogWriter
    outbox: Outbox
    audit: SqlAudit
    lifecycle: Lifecycle
    # Hears of commits, whoever makes them.
    listen: Callable[[], Listener]
    storage_options: Mapping[str, str]
    sink: Sink
    # Gives back the connections to the ledger.
    close: Callable[[], None]

    def store_at(self, location: str) -> ObjectStore:
        return open_store(location, self.storage_options)

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...]:
        """Commit in one transaction; a lost race is raised here, and only here, as an error."""
        outcome = self.writer.commit(drafts)
        if isinstance(outcome, Conflict):
            raise ConflictError(outcome)
        for draft, committed in zip(drafts, outcome, strict=True):
            self.sink(TableCommitted(table=committed.table, version=committed.version, operation=draft.operation))
        return outcome


def open_services(
    ledger: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    root: str | None = None,
    create: bool = False,
    sink: Sink = ignore,
    actor: str | None = None,
) -> Services:
    """Open a ledger with everything the verbs need. With `create` an empty database becomes one."""
    check_text(actor, "actor")
    who = actor or this_actor()
    options = dict(storage_options or {})
    # Looked at before the database is touched: a bad root must not leave a ledger behind.
    wanted = None if root is None else normalise_url(root)
    if wanted is not None:
        open_store(wanted, options)
    database = open_ledger(ledger, create=create)
    try:
        settled = settle_root(database, wanted)
    except BaseException:
        database.close()
        raise
    return Services(
        ledger=database.url,
        root=settled,
        reader=SqlTxnLogReader(database),
        writer=SqlTxnLogWriter(database, who),
        outbox=SqlOutbox(database, who),
        audit=SqlAudit(database, who),
        lifecycle=SqlLifecycle(database, who),
        listen=lambda: listen(database.dialect),
        storage_options=options,
        sink=sink,
        close=database.close,
    )
