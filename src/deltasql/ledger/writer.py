"""Commits: one SQL transaction holds the version, its actions and the debt to publish it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec

from deltasql.errors import CommitUnknownError, LedgerBusyError, LedgerError, LedgerRaceError, LedgerUnavailableError
from deltasql.failpoints import failpoint
from deltasql.ledger import statements as sql
from deltasql.ledger.adoption import insert_adopted
from deltasql.ledger.audit import AuditEntry, record_act
from deltasql.ledger.changes import commit_writes
from deltasql.ledger.contracts import AdoptedBase, AdoptedCommit, CommitDraft, TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change
from deltasql.ledger.engine import Ledger
from deltasql.ledger.heads import Head, stand
from deltasql.ledger.placing import Placing
from deltasql.ledger.reader import load_commits
from deltasql.ledger.records import LostRaceError, Prepared, check_text, commit_info, prepare, record_history, replayed
from deltasql.ledger.refusals import check_read_version, location_taken, no_table, table_exists
from deltasql.ledger.registry import check_name, find_table, insert_table
from deltasql.outcomes import Committed, Conflict
from deltasql.protocol.actions import DomainMetadata, RemoveFile, SetTransaction
from deltasql.protocol.conflicts import find_conflict

# An append that holds one of these must be compared with what others wrote, blind or not.
_WATCHED = (RemoveFile, SetTransaction, DomainMetadata)


class _Target(msgspec.Struct):
    """A table that is about to be committed to, its head locked, and the database's clock."""

    entry: TableEntry
    head: Head
    now: int
    # What its layout is known by; None where that is not sure.
    layout_key: tuple[object, ...] | None = None


class _Attempt(msgspec.Struct):
    """What is known of a commit while it is tried, again where the connection was lost."""

    txn_id: str
    number: int = 0
    # Whether an earlier try may have landed without our hearing of it.
    unknown: bool = False
    # Whether this try has come to its COMMIT.
    ending: bool = False

    def end(self) -> None:
        self.unknown = self.ending = True

    def token(self, draft: CommitDraft) -> str:
        """What the commit is known by. One that was given none gets one, so that a lost answer can be asked for."""
        return draft.token or self.txn_id


class SqlTxnLogWriter:
    """The `TxnLogWriter` of a SQL ledger. `actor` is who the ledger shall say it was."""

    def __init__(self, ledger: Ledger, actor: str = "") -> None:
        self._ledger = ledger
        self._actor = actor
        self._placing = Placing()

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        if not drafts:
            return ()
        prepared = prepare(drafts)
        attempt = _Attempt(str(uuid.uuid4()))
        try:
            return self._ledger.repeat(lambda: self._commit(prepared, attempt))
        except LostRaceError as lost:
            return lost.conflict
        except LedgerError as error:
            if not attempt.unknown:
                raise
            raise CommitUnknownError(error.message, token=attempt.token(drafts[0])) from error

    def _commit(self, prepared: Sequence[Prepared], attempt: _Attempt) -> tuple[Committed, ...]:
        attempt.number += 1
        attempt.ending = False
        try:
            with self._ledger.write() as session:
                session.announce()
                result = self._commit_all(session, prepared, attempt)
                if not attempt.ending:
                    failpoint("before_sql_commit")
                    attempt.end()
        except LedgerUnavailableError:
            raise
        except LedgerError:
            # The database itself has said that it did not commit.
            attempt.unknown = attempt.unknown and not attempt.ending
            raise
        failpoint("after_sql_commit")
        return result

    def _commit_all(self, session: Session, prepared: Sequence[Prepared], attempt: _Attempt) -> tuple[Committed, ...]:
        # Locked in the same order by everyone, so that two transactions over the same tables never wait for each other.
        by_name = sorted(prepared, key=lambda item: item.draft.table)
        targets = {item.draft.table: _target(session, item.draft, attempt) for item in by_name}
        found = [_find_earlier(session, item.draft, targets[item.draft.table].entry, attempt) for item in prepared]
        if earlier := replayed(found):
            return earlier
        # Whoever holds these locks knows that no earlier try of this commit stands, or ever will.
        attempt.unknown = False
        for item in prepared:
            _check(session, item, targets[item.draft.table])
        # One instant for all tables of the transaction, strictly after everything that was committed to any of them.
        clocks = [target.now for target in targets.values()]
        timestamp = max(*clocks, *(target.head.timestamp + 1 for target in targets.values()))
        versions = {name: target.head.version + 1 for name, target in targets.items()}
        group = {item.draft.table: versions[item.draft.table] for item in prepared} if len(prepared) > 1 else None
        return tuple(
            self._write(session, item, targets[item.draft.table], timestamp, attempt, group) for item in prepared
        )

    def _write(
        self,
        session: Session,
        item: Prepared,
        target: _Target,
        timestamp: int,
        attempt: _Attempt,
        group: dict[str, int] | None,
    ) -> Committed:
        entry, standing = target.entry, stand(item, target.head, timestamp)
        info = commit_info(
            item.draft,
            timestamp=timestamp,
            in_commit_timestamps=standing.head.in_commit_timestamps,
            txn_id=attempt.txn_id,
            group=group,
        )
        group_id = attempt.txn_id if group else None
        placed = self._placing.place(session, entry.table_id, target.layout_key, standing)
        token, operation = attempt.token(item.draft), item.draft.operation
        writes = commit_writes(entry, standing, info, operation, token, group_id, self._actor, placed.places)
        moved = Change(sql.MOVE_HEAD, (*msgspec.structs.astuple(standing.head), entry.table_id, target.head.version))
        committed = Committed(table=entry.name, version=standing.head.version, timestamp=timestamp, group_id=group_id)
        statements = [*writes.statements, *placed.writes, moved]
        if group is None and not writes.removes and session.may_end_with(statements):
            failpoint("after_head_moved")
            failpoint("before_sql_commit")
            attempt.end()
            session.end_with(statements)
            return committed
        counts = session.send(statements)
        writes.check(session, counts)
        if counts[-1] != 1:
            raise LedgerBusyError(
                f"{entry.name}: the head moved although its row was locked",
                hint="repeat the commit; nothing was written",
            )
        failpoint("after_head_moved")
        return committed

    def adopt(
        self,
        name: str,
        location: str,
        commits: Sequence[AdoptedCommit],
        base: AdoptedBase | None = None,
        checkpoint_version: int | None = None,
    ) -> TableEntry:
        check_name(name)
        check_text(location, "location")
        history = record_history(commits, base)
        with self._ledger.write() as session:
            entry = _create(session, name, location)
            insert_adopted(session, entry, history, self._actor)
            if checkpoint_version is not None:
                session.change(sql.MOVE_CHECKPOINT, (checkpoint_version, entry.table_id, checkpoint_version))
            last = history[-1][0].version
            act = AuditEntry(action="adopt", table=name, version=last, actor=self._actor, detail={"location": location})
            record_act(session, act)
        return entry


def _target(session: Session, draft: CommitDraft, attempt: _Attempt) -> _Target:
    """The table of a draft with its head locked; created where the draft says so and no earlier try has."""
    dialect = session.dialect
    if draft.create_at is not None:
        existing = find_table(session, draft.table)
        if existing is None or not session.row(sql.SELECT_TOKEN, (existing.table_id, attempt.token(draft))):
            return _Target(_create(session, draft.table, draft.create_at), Head(), session.now())
    # The second statement sees the table as it is once the first has its lock.
    found, row = session.row_of_each(
        [(sql.LOCK_HEAD + dialect.lock_row, (draft.table,)), (sql.select_target(dialect.clock), (draft.table,))]
    )
    if found is None or row is None or draft.table_id not in (None, row[0]):
        raise no_table(draft.table)
    if found[0] != row[0]:
        raise LedgerRaceError(f"{draft.table}: another table took this name meanwhile", hint="repeat the commit")
    entry, head, digest = TableEntry(table_id=row[0], name=row[1], location=row[2]), Head(*found[1:]), row[4]
    # The hash tells a version that was made anew from the one that was known.
    layout_key = (entry.table_id, head.layout_version, digest) if digest else None
    return _Target(entry, head, int(row[3]), layout_key)


def _create(session: Session, name: str, location: str) -> TableEntry:
    if find_table(session, name) is not None:
        raise table_exists(name)
    if taken := session.row(sql.SELECT_TABLE_AT, (location,)):
        raise location_taken(location, taken[1])
    entry = insert_table(session, name, location)
    session.send(
        [
            Change(sql.INSERT_HEAD, (entry.table_id, *msgspec.structs.astuple(Head()))),
            Change(sql.INSERT_MIRROR_HEAD, (entry.table_id, -1, None)),
        ]
    )
    return entry


def _find_earlier(session: Session, draft: CommitDraft, entry: TableEntry, attempt: _Attempt) -> Committed | None:
    """What an earlier try of this commit came to, by its token or by its application's own count."""
    row = None
    # A token of our own making cannot have been used before the first try.
    if draft.token is not None or attempt.number > 1:
        row = session.row(sql.SELECT_TOKEN, (entry.table_id, attempt.token(draft)))
    if row is None and draft.txn is not None:
        row = session.row(sql.SELECT_TXN, (entry.table_id, draft.txn.app_id, draft.txn.version))
    if row is None:
        return None
    return Committed(table=entry.name, version=row[0], timestamp=row[1], group_id=row[2], replayed=True)


def _check(session: Session, item: Prepared, target: _Target) -> None:
    """Refuse what cannot stand on the present head."""
    draft, head = item.draft, target.head
    if draft.create_at is not None or draft.read_version is None:
        return
    check_read_version(draft, head.version)
    if draft.read_version == head.version:
        return
    unseen = draft.read_version + 1
    # An append needs no look at what others wrote, as long as the table is still the one it was written for.
    if (
        draft.reads.blind
        and max(head.metadata_version, head.protocol_version) < unseen
        and not any(isinstance(action, _WATCHED) for action in item.actions)
    ):
        return
    commits = load_commits(session, target.entry.table_id, unseen, head.version)
    winners = ((commit.version, commit.actions) for commit in commits)
    conflict = find_conflict(draft.table, draft.reads, item.actions, winners, isolation=draft.isolation)
    if conflict is not None:
        raise LostRaceError(conflict)
