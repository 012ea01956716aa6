"""What every verb needs: the ledger's sides, and the stores that tables live in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from deltasql.errors import ConflictError
from deltasql.events import Sink, TableCommitted, ignore
from deltasql.ledger.contracts import CommitDraft, Outbox, TxnLogReader, TxnLogWriter
from deltasql.outcomes import Committed, Conflict
from deltasql.storage.base import ObjectStore
from deltasql.storage.locations import open_store


class Services(msgspec.Struct, frozen=True, kw_only=True):
    reader: TxnLogReader
    writer: TxnLogWriter
    outbox: Outbox
    storage_options: Mapping[str, str] = {}
    sink: Sink = ignore

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
