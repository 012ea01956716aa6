"""Verbs on the ledger as a whole: making one, and bringing one to this release."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasql.cli.options import AsJson, LedgerUrl, open_lake, require_ledger
from deltasql.cli.output import instant, print_fields, print_json, print_line, print_table
from deltasql.errors import StorageError


def init(
    root: Annotated[
        str | None, typer.Option("--root", metavar="PATH", help="The folder or URL below which new tables are made.")
    ] = None,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a ledger.

    One that is there already is left as it is; a root that it lacks is added.
    """
    from deltasql.client import connect
    from deltasql.ledger.engine import find_ledger

    url = require_ledger(ledger)
    database, found = find_ledger(url)
    try:
        if root is not None and (found is None or _root_of(url) is None):
            _require_writable(root)
        with connect(url, root) as lake:
            document = {"ledger": database.shown_url, "root": lake.root, "created": found is None}
    finally:
        database.close()
    if as_json:
        print_json(document)
    else:
        print_fields(
            {"ledger": database.shown_url, "root": lake.root, "created": "yes" if found is None else "was there"}
        )


def _root_of(url: str) -> str | None:
    from deltasql.client import connect

    with connect(url, create=False) as lake:
        return lake.root


def _require_writable(root: str) -> None:
    """Put something there and take it away: a ledger keeps its root for ever, so a useless one must not get in."""
    from uuid import uuid4

    from deltasql.storage.locations import open_store

    store = open_store(root)
    probe = f"_deltasql_probe-{uuid4().hex}"
    try:
        store.put(probe, b"")
        store.delete(probe)
    except StorageError as error:
        raise type(error)(f"nothing can be written below {store.url}", hint=error.hint, field="root") from error


def migrate(ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Bring a ledger of an older release to this one."""
    from deltasql.ledger.engine import SCHEMA_VERSION, find_ledger, no_ledger, other_release
    from deltasql.ledger.migrate import migrate as bring_up

    database, found = find_ledger(require_ledger(ledger))
    try:
        if found is None:
            raise no_ledger(database)
        if found > SCHEMA_VERSION:
            raise other_release(found)
        reached = bring_up(database)
    finally:
        database.close()
    if as_json:
        print_json({"ledger": database.shown_url, "from": found, "to": reached, "changed": found != reached})
    else:
        print_fields({"ledger": database.shown_url, "schema": reached if found == reached else f"{found} → {reached}"})


def audit(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only this table.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="At most this many, the newest.", min=1, max=1_000_000)] = 50,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show who committed, adopted, quarantined, rebuilt, and when."""
    with open_lake(ledger) as lake:
        entries = lake.audit(table, limit)
    if as_json:
        print_json(entries)
        return
    rows = [
        (instant(entry.at), entry.action, entry.table, entry.version, entry.actor, entry.db_user) for entry in entries
    ]
    print_table(["when", "what", "table", "version", "who", "database user"], rows)


def roles(
    prefix: Annotated[str, typer.Option(help="What the names of the roles begin with.")] = "deltasql",
    apply: Annotated[bool, typer.Option("--apply", help="Run the statements instead of printing them.")] = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make the database roles of a PostgreSQL ledger.

    They are migrator, writer, publisher and reader. Without --apply the SQL is only printed. Run it again after a
    migration.
    """
    from deltasql.ledger.engine import open_ledger
    from deltasql.ledger.roles import create_roles, role_statements

    if apply:
        database = open_ledger(require_ledger(ledger), create=False)
        try:
            statements = create_roles(database, prefix)
        finally:
            database.close()
    else:
        statements = role_statements(prefix)
    if as_json:
        print_json({"applied": apply, "statements": statements})
        return
    for statement in statements:
        print_line(f"{statement};")
