"""Verbs on the mirror: publish now, and how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
import typer

from deltasql.cli.failures import FAILURE
from deltasql.cli.options import AsJson, LedgerUrl, TableNames, open_lake
from deltasql.cli.output import instant, print_json, print_problem, print_table

if TYPE_CHECKING:
    from deltasql.client import Table

app = typer.Typer(name="mirror", help="Publish the ledger's commits to the logs.", invoke_without_command=True)


@app.command()
def once(tables: TableNames = None, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Publish every version that is pending now.

    Exits 1 where a table could not be published.
    """
    with open_lake(ledger) as lake:
        report = lake.mirror(tables=tables or None)
    if as_json:
        print_json({"ok": report.ok, "published": report.published, "tables": report.tables})
    else:
        print_table(
            ["table", "outcome", "new", "published", "head", "checkpoint"],
            [
                (
                    each.table,
                    each.outcome,
                    each.published,
                    _version(each.published_version),
                    each.head_version,
                    each.checkpoint_version,
                )
                for each in report.tables
            ],
        )
        for each in report.tables:
            if each.outcome != "published":
                print_problem(
                    f"{each.table}: {each.error or 'another publisher holds this table'}",
                    each.hint or "wait for it, then run: deltasql mirror once",
                )
    if not report.ok:
        raise typer.Exit(FAILURE)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one table's mirror stands. `pending` counts every version that is not in the log yet."""

    table: str
    state: Literal["published", "pending", "failed", "quarantined"]
    head_version: int
    published_version: int | None
    pending: int
    oldest_pending_at: int | None
    checkpoint_version: int | None
    quarantined_version: int | None
    error: str | None
    hint: str | None

    @property
    def ok(self) -> bool:
        return self.state in ("published", "pending")


@app.command()
def status(tables: TableNames = None, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Show how far each log has come.

    Exits 1 where a table has failed or is quarantined.
    """
    with open_lake(ledger) as lake:
        chosen = [lake.table(name) for name in tables] if tables else lake.tables()
        standings = [_standing(table) for table in chosen]
    ok = all(each.ok for each in standings)
    if as_json:
        print_json({"ok": ok, "tables": standings})
    else:
        print_table(
            ["table", "state", "published", "head", "pending", "since", "checkpoint"],
            [
                (
                    each.table,
                    each.state,
                    each.published_version,
                    each.head_version,
                    each.pending,
                    instant(each.oldest_pending_at),
                    each.checkpoint_version,
                )
                for each in standings
            ],
        )
        for each in standings:
            if not each.ok:
                print_problem(f"{each.table}: {each.error}", each.hint)
    if not ok:
        raise typer.Exit(FAILURE)


def _standing(table: Table) -> Standing:
    mirrored = table.mirror_head()
    owed = table.mirror_status(unpublished_only=True)
    failed = next((each for each in owed if each.state == "FAILED"), None)
    state, error, hint = ("pending" if owed else "published"), None, None
    if mirrored.quarantined:
        state, error = "quarantined", mirrored.quarantine_reason
        hint = (
            f"look at {table.location}/_delta_log and move the foreign file out of it, then run: "
            f"deltasql mirror once {table.name}"
        )
    elif failed is not None:
        state, error = "failed", f"version {failed.version}: {failed.error}"
        hint = f"put that right, then run: deltasql mirror once {table.name}"
    return Standing(
        table=table.name,
        state=state,
        head_version=table.version,
        published_version=_version(mirrored.published_version),
        pending=len(owed),
        oldest_pending_at=owed[0].created_at if owed else None,
        checkpoint_version=mirrored.checkpoint_version,
        quarantined_version=mirrored.quarantined_version,
        error=error,
        hint=hint,
    )


def _version(published: int) -> int | None:
    """None where nothing is in the log yet."""
    return None if published < 0 else published
