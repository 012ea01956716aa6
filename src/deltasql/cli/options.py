"""What every verb takes, and how it gets to the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltasql.errors import ConfigError
from deltasql.events import Sink, ignore

if TYPE_CHECKING:
    from deltasql.client import Lake

LEDGER_VARIABLE = "DELTASQL_LEDGER"
# The largest version there can be, and the largest number a database takes.
MAX_NUMBER = 2**63 - 1

LedgerUrl = Annotated[
    str | None,
    typer.Option("--ledger", envvar=LEDGER_VARIABLE, metavar="URL", help="The ledger, such as sqlite:///lake.db."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
TableName = Annotated[str, typer.Argument(metavar="NAME", help="The table, such as sales.orders.")]
TableNames = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]...", help="Only these tables.", show_default=False)
]


def require_ledger(url: str | None) -> str:
    """The ledger's URL, from the option or the environment."""
    if not url:
        raise ConfigError(
            "no ledger was named",
            hint=f"give --ledger URL, such as sqlite:///lake.db, or set {LEDGER_VARIABLE}",
            field="ledger",
        )
    return url


def open_lake(url: str | None, *, create: bool = False, sink: Sink = ignore) -> Lake:
    """Open the lake. A mistyped URL must not make a new ledger, so only verbs that begin one may `create`."""
    from deltasql.client import connect

    return connect(require_ledger(url), create=create, sink=sink)
