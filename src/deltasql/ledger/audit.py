"""Who did what to the lake, and when: the commits, and everything an operator decided."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.dialects import Session
from deltasql.ledger.engine import Ledger
from deltasql.ledger.rows import dump, load_map


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One act. `actor` is who the caller says to be; `db_user` is who the database knows it was, where it does."""

    action: str
    actor: str
    table: str | None = None
    version: int | None = None
    detail: Mapping[str, Any] = {}
    at: int = 0
    db_user: str | None = None


def this_actor() -> str:
    """Who is at work here: DELTASQL_ACTOR, or the system's user and host."""
    if named := os.environ.get("DELTASQL_ACTOR"):
        return named
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container may run under a number that has no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def record_act(session: Session, act: AuditEntry) -> None:
    """Note an act in the transaction that does it, so that neither is there without the other."""
    row = (str(uuid.uuid4()), session.now(), act.action, act.table, act.version, act.actor, dump(dict(act.detail)))
    session.change(sql.INSERT_ACT, row)


class SqlAudit:
    """The audit of a SQL ledger."""

    def __init__(self, ledger: Ledger, actor: str) -> None:
        self._ledger = ledger
        self._actor = actor

    def record(self, action: str, table: str | None = None, version: int | None = None, **detail: object) -> None:
        """Note what was done outside the ledger, such as a log that was rebuilt."""
        with self._ledger.write() as session:
            record_act(
                session, AuditEntry(action=action, actor=self._actor, table=table, version=version, detail=detail)
            )

    def entries(self, table: str | None = None, limit: int = 100) -> list[AuditEntry]:
        """The newest acts, commits among them, newest first."""
        acts, commits = (sql.SELECT_ACTS, sql.SELECT_COMMITTERS)
        parameters: tuple[Any, ...] = (table, table, limit)
        with self._ledger.read() as session:
            rows = [*session.rows(acts, parameters), *session.rows(commits, parameters)]
        found = [
            AuditEntry(
                at=row[0],
                action=row[1],
                table=row[2],
                version=row[3],
                actor=row[4] or "",
                db_user=row[5],
                detail=load_map(row[6]),
            )
            for row in rows
        ]
        found.sort(key=lambda entry: (entry.at, entry.version or -1), reverse=True)
        return found[:limit]
