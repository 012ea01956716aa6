"""The command itself: its verbs, and the way from an error to an exit code.

Verbs import what they need when they run: `deltasql --help` loads no database and no Arrow.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from deltasql.cli import demo, ledger, log, mirror, table
from deltasql.cli.failures import INTERRUPTED, UsageError, report_bug, report_error, report_system, report_usage
from deltasql.cli.output import print_line
from deltasql.errors import DeltaSqlError
from deltasql.version import __version__

app = typer.Typer(
    name="deltasql",
    help="Delta Lake tables whose transaction log is a SQL database.",
    epilog="Verbs take --ledger URL (or DELTASQL_LEDGER) and --json. Exit codes: 0 good, 1 findings or failure, "
    "2 wrong use.",
    invoke_without_command=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"deltasql {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the release and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    _help_without_verb(context)


def _help_without_verb(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print_line(context.get_help())


app.command()(demo.demo)
app.command()(ledger.init)
app.command()(ledger.migrate)
app.command()(ledger.roles)
app.command()(ledger.audit)
app.command()(log.adopt)
app.command()(log.rebuild)
app.command()(log.checkpoint)
app.command()(log.show)
app.add_typer(table.app, callback=_help_without_verb)
app.add_typer(mirror.app, callback=_help_without_verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = _execute(words)
        sys.stdout.flush()
    except OSError as error:
        # Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return report_system(error)
    return code


def _execute(words: list[str]) -> int:
    # Looked for by hand: also a command line that Typer cannot read may ask for JSON.
    as_json = "--json" in words
    try:
        code = typer.main.get_command(app)(words, prog_name="deltasql", standalone_mode=False)
    except DeltaSqlError as error:
        return report_error(error, as_json=as_json)
    except UsageError as error:
        return report_usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError:
        # Mostly the output itself, so that nothing more can be said there.
        raise
    except Exception as error:  # noqa: BLE001 (the last line: whatever it is, it is said in our words)
        return report_bug(error, as_json=as_json)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The entry point of the installed command."""
    if cast("object", sys.stdout) is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (as long as the process)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its number, not a crash.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())


if __name__ == "__main__":
    run()
