"""Verbs that change a table as a whole: its properties, its constraints, its name, its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.cli.failures import FAILURE
from deltasql.cli.options import AsJson, LedgerUrl, TableName, open_lake
from deltasql.cli.output import instant, print_fields, print_json, print_line, print_problem, printable
from deltasql.errors import InvalidInputError

if TYPE_CHECKING:
    from deltasql.outcomes import Committed

constraint = typer.Typer(name="constraint", help="Say what every row must be.", invoke_without_command=True)

ConstraintName = Annotated[str, typer.Argument(metavar="CONSTRAINT", help="The constraint's name.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing where there is none.")]


@constraint.callback()
def _help_without_verb(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print_line(context.get_help())


def set_properties(
    name: TableName,
    properties: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="Properties and their values.", show_default=False)
    ],
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Set properties of a table."""
    given = pairs(properties, "delta.appendOnly=true")
    with open_lake(ledger) as lake:
        committed = lake.table(name).set_properties(given)
    print_committed(committed, as_json=as_json)


def unset_properties(
    name: TableName,
    properties: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="The names of properties.", show_default=False)
    ],
    if_exists: IfExists = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Take properties away, so that their defaults hold."""
    with open_lake(ledger) as lake:
        committed = lake.table(name).unset_properties(properties, if_exists=if_exists)
    print_committed(committed, as_json=as_json)


@constraint.command("add")
def add_constraint(
    name: TableName,
    constraint: ConstraintName,
    expression: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help='What every row makes true, such as "id > 0".')
    ],
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Add a constraint that every row must satisfy.

    The rows that are there are looked at first; where one of them does not satisfy it, nothing is changed.
    """
    with open_lake(ledger) as lake:
        committed = lake.table(name).add_constraint(constraint, expression)
    print_committed(committed, as_json=as_json)


@constraint.command("drop")
def drop_constraint(
    name: TableName,
    constraint: ConstraintName,
    if_exists: IfExists = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Drop a constraint."""
    with open_lake(ledger) as lake:
        committed = lake.table(name).drop_constraint(constraint, if_exists=if_exists)
    print_committed(committed, as_json=as_json)


def rename(
    name: Annotated[str, typer.Argument(metavar="OLD", help="The table, such as sales.orders.")],
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give a table another name; its files stay."""
    with open_lake(ledger) as lake:
        location = lake.rename_table(name, new_name).location
    document = {"name": new_name, "before": name, "location": location}
    if as_json:
        print_json(document)
    else:
        print_fields(document)


def drop(
    name: TableName,
    data: Annotated[bool, typer.Option("--data", help="Remove the table's folder too, log and all.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where versions are not in the log yet: they are lost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Take a table out of the ledger."""
    with open_lake(ledger) as lake:
        location = lake.table(name).location
        if not (yes or _confirmed(name, location, data=data)):
            print_problem("nothing was dropped", None)
            raise typer.Exit(FAILURE)
        report = lake.drop_table(name, data, force=force)
    if as_json:
        print_json(report)
        return
    fields: dict[str, object] = {"dropped": report.table, "version": report.version, "location": report.location}
    if report.unpublished:
        fields["lost"] = f"{report.unpublished} versions that were not in the log"
    print_fields({**fields, "files removed": report.files, "bytes removed": report.bytes} if data else fields)


def print_committed(committed: Committed, *, as_json: bool) -> None:
    if as_json:
        print_json(committed)
    else:
        print_fields({"table": committed.table, "version": committed.version, "time": instant(committed.timestamp)})


def pairs(given: Sequence[str], example: str) -> dict[str, str]:
    """Properties as they stand on a command line."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals or name in found:
            raise InvalidInputError(
                f"{each!r:.100} is {'given twice' if name in found else 'no property'}",
                hint=f"write each property once: {example}",
                field="property",
            )
        found[name] = value
    return found


def _confirmed(name: str, location: str, *, data: bool) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInputError(
            f"nobody can be asked whether to drop table {name!r}", hint="say so with --yes", field="yes"
        )
    what = f"and remove {location}" if data else f"and leave {location} as it is"
    return typer.confirm(printable(f"Drop table {name} {what}?"), err=True)
