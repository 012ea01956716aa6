"""Verbs between a ledger and a log: adopt, rebuild, checkpoint, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from deltasql.cli.failures import FAILURE
from deltasql.cli.options import MAX_NUMBER, AsJson, LedgerUrl, TableName, open_lake, require_ledger
from deltasql.cli.output import print_bytes, print_fields, print_json, print_line, print_problem
from deltasql.errors import InvalidInputError, VersionNotFoundError

if TYPE_CHECKING:
    from deltasql.ledger.contracts import RecordedCommit


def adopt(
    location: Annotated[str, typer.Argument(metavar="PATH", help="The table's folder or URL; it holds _delta_log/.")],
    name: Annotated[str, typer.Option("--name", metavar="N", help="The table's name in the ledger.")],
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Take in a table that others wrote.

    It stays where it is; its whole readable history goes into the ledger, which is made where there is none.
    """
    with open_lake(ledger, create=True) as lake:
        table = lake.adopt(location, name)
        document = {"name": table.name, "version": table.version, "location": table.location}
    if as_json:
        print_json(document)
    else:
        print_fields(document)


def rebuild(
    name: TableName,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PATH", help="Another folder or URL, instead of the table's own.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Move wrong files aside; write to a place that is not empty.")
    ] = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write a log again from the ledger.

    Every published commit comes back byte for byte. Data files are not touched.
    """
    with open_lake(ledger) as lake:
        report = lake.rebuild(name, to, force)
    if as_json:
        print_json(report)
    else:
        print_fields(
            {
                "table": report.table,
                "location": report.location,
                "versions": f"{report.first_version} to {report.last_version}",
                "written": report.written,
                "unchanged": report.unchanged,
                "replaced": ", ".join(map(str, report.replaced)) or None,
                "checkpoint": report.checkpoint_version,
            }
        )


def checkpoint(name: TableName, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Write a checkpoint at the published version."""
    with open_lake(ledger) as lake:
        document = {"table": name, "version": lake.checkpoint(name)}
    if as_json:
        print_json(document)
    else:
        print_fields(document)


def show(
    name: TableName,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, max=MAX_NUMBER, help="The commit's version.")],
    raw: Annotated[bool, typer.Option("--raw", help="Print the bytes of the commit file, exactly.")] = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Print a commit as the ledger holds it.

    Exits 1 where it is not what was committed.
    """
    from deltasql.protocol.jsonlog import sha256

    if raw and as_json:
        raise InvalidInputError("both --raw and --json", hint="give one of them", field="raw")
    commit, data = _load(require_ledger(ledger), name, version)
    intact = sha256(data) == commit.sha256
    # Kept as text: what is shown has the numbers and the order of keys of the file.
    lines = [line for line in data.split(b"\n") if line.strip()]
    if raw:
        print_bytes(data)
    elif as_json:
        print_json(
            {
                "table": name,
                "version": version,
                "timestamp": commit.timestamp,
                "origin": commit.origin,
                "encoder": commit.encoder,
                "sha256": commit.sha256,
                "intact": intact,
                "actions": [msgspec.Raw(line) for line in lines],
            }
        )
    else:
        for line in lines:
            print_line(msgspec.json.format(line, indent=2).decode())
    if not intact:
        if not as_json:
            print_problem(
                f"version {version} of {name} does not encode to the bytes that were committed",
                "do not publish from this ledger: restore it from a backup, or use the release that wrote it",
            )
        raise typer.Exit(FAILURE)


def _load(url: str, name: str, version: int) -> tuple[RecordedCommit, bytes]:
    from deltasql.ledger.engine import open_ledger
    from deltasql.ledger.reader import SqlTxnLogReader

    database = open_ledger(url, create=False)
    try:
        reader = SqlTxnLogReader(database)
        table = reader.table(name)
        # Asked first because it says what versions there are.
        reader.state(table, version)
        (commit,) = reader.commits(table, version, version)
    finally:
        database.close()
    data = commit.encode()
    if data is None:
        raise VersionNotFoundError(
            f"the commit file of version {version} was gone before {name} was adopted",
            hint="ask for a later version: deltasql table history",
            field="version",
        )
    return commit, data
