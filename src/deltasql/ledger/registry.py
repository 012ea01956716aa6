"""Which tables there are, and where the lake's root is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from deltasql.errors import ConfigError, InvalidInputError
from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.dialects import Session
from deltasql.ledger.engine import Ledger
from deltasql.ledger.refusals import no_table

MAX_NAME = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_name(name: object) -> str:
    """Refuse what cannot be a table's name: one or more parts, separated by dots, each of them a folder's name."""

    def refuse(why: str) -> InvalidInputError:
        return InvalidInputError(
            f"the table name {name!r:.100} {why}",
            hint="use parts of letters, digits and underscores, separated by dots: sales.orders",
            field="name",
        )

    if not isinstance(name, str):
        raise refuse("is not text")
    if len(name) > MAX_NAME:
        raise refuse(f"is longer than {MAX_NAME} characters")
    if not all(part and part.strip() == part for part in name.split(".")):
        raise refuse("has an empty part, or one with a space at its end")
    if _CONTROL.search(name) or "/" in name or "\\" in name:
        raise refuse("has a slash, a backslash or a control character in it")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise refuse("is not valid Unicode") from error
    return name


def find_table(session: Session, name: str) -> TableEntry | None:
    row = session.row(sql.SELECT_TABLE, (name,))
    return None if row is None else TableEntry(table_id=row[0], name=row[1], location=row[2])


def require_table(session: Session, name: str) -> TableEntry:
    entry = find_table(session, check_name(name))
    if entry is None:
        raise no_table(name)
    return entry


def list_tables(session: Session) -> list[TableEntry]:
    return entries(session.rows(sql.SELECT_TABLES))


def entries(rows: Sequence[tuple[Any, ...]]) -> list[TableEntry]:
    """Rows of tables, by name. Sorted here: databases differ in what they take for the order of letters."""
    found = [TableEntry(table_id=row[0], name=row[1], location=row[2]) for row in rows]
    return sorted(found, key=lambda entry: entry.name)


def insert_table(session: Session, name: str, location: str) -> TableEntry:
    session.change(sql.INSERT_TABLE, (check_name(name), location, session.now()))
    return require_table(session, name)


def settle_root(ledger: Ledger, root: str | None) -> str | None:
    """The lake's root: kept at the first connect that names one, and the same ever after."""
    with ledger.read() as session:
        row = session.row(sql.SELECT_LAKE)
    if row is None or (row[1] is None and root is not None):
        row = _store_root(ledger, root)
    if root is not None and row[1] != root:
        raise ConfigError(
            f"this ledger's root is {row[1]}, not {root}",
            hint="leave root out, or use another ledger",
            field="root",
        )
    return row[1]


def _store_root(ledger: Ledger, root: str | None) -> tuple[str, str | None]:
    with ledger.write() as session:
        session.lock_lake()
        row = session.row(sql.SELECT_LAKE)
        if row is None:
            row = (str(uuid.uuid4()), root)
            session.change(sql.INSERT_LAKE, (*row, session.now()))
        elif row[1] is None and root is not None:
            session.change(sql.SET_ROOT, (root,))
            row = (row[0], root)
    return (row[0], row[1])
