"""One transaction over any number of tables."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from deltasql.errors import InvalidInputError
from deltasql.ledger.contracts import CommitDraft, TableEntry
from deltasql.ops.commit import Terms, draft_commit
from deltasql.ops.services import Services
from deltasql.ops.snapshot import Snapshot, snapshot_at
from deltasql.ops.write import draft_append, draft_delete, draft_overwrite, merge_appends
from deltasql.outcomes import Committed
from deltasql.protocol.actions import Action


class Transaction:
    """Commits that stand or fall together. Data files are written at once; the commit comes at the end of the block.

    Where the block raises, nothing is committed and the files it wrote belong to no version.
    """

    def __init__(self, services: Services, terms: Terms) -> None:
        self._services = services
        self._terms = terms
        self._drafts: dict[str, CommitDraft] = {}
        self._open = True
        self.result: tuple[Committed, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self.result = self._services.commit([self._terms.apply(draft) for draft in self._drafts.values()])

    def table(self, name: str) -> TransactionTable:
        return TransactionTable(self, self._services, self._services.reader.table(name))

    def add(self, draft: CommitDraft) -> None:
        if not self._open:
            raise InvalidInputError("this transaction has ended", hint="begin a new one", field="transaction")
        present = self._drafts.get(draft.table)
        if present is None:
            self._drafts[draft.table] = draft
        elif _is_append(present) and _is_append(draft):
            self._drafts[draft.table] = merge_appends(present, draft)
        else:
            raise InvalidInputError(
                f"a transaction holds one {present.operation} for table {draft.table!r} already",
                hint="use one transaction for each, or put both into one operation",
                field="transaction",
            )


class TransactionTable:
    """A table inside a transaction: the same verbs, without an answer until the transaction ends."""

    def __init__(self, transaction: Transaction, services: Services, entry: TableEntry) -> None:
        self._transaction = transaction
        self._services = services
        self._entry = entry

    def append(self, data: object) -> None:
        self._transaction.add(draft_append(self._services, self._entry, self._snapshot(), data))

    def overwrite(self, data: object, where: str | None = None) -> None:
        self._transaction.add(draft_overwrite(self._services, self._entry, self._snapshot(), data, where))

    def delete(self, where: str | None = None) -> None:
        draft = draft_delete(self._services, self._entry, self._snapshot(), where)
        if draft is not None:
            self._transaction.add(draft)

    def commit(self, actions: Sequence[Action], operation: str = "WRITE", read_version: int | None = None) -> None:
        self._transaction.add(draft_commit(self._entry, self._snapshot(), actions, operation, read_version))

    def _snapshot(self) -> Snapshot:
        return snapshot_at(self._services, self._entry)


def _is_append(draft: CommitDraft) -> bool:
    return draft.parameters.get("mode") == "Append"
