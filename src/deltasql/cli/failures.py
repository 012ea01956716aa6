"""What the command answers when something goes wrong: an exit code, and what to do next.

0    good
1    findings, or a failure: the command was understood, and the lake or the world said no
2    wrong use: the command itself must change (`ConfigError`, `InvalidInputError` and what hangs below them)
130  stopped by Ctrl-C
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import cast

import typer

from deltasql.cli.output import print_json, print_problem
from deltasql.errors import ConfigError, DeltaSqlError, InvalidInputError

FAILURE = 1
WRONG_USE = 2
INTERRUPTED = 130

DEBUG_VARIABLE = "DELTASQL_DEBUG"

# Typer gives only this child of it a public name.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


def exit_code(error: DeltaSqlError) -> int:
    return WRONG_USE if isinstance(error, ConfigError | InvalidInputError) else FAILURE


def report_error(error: DeltaSqlError, *, as_json: bool) -> int:
    _report(error.as_dict(), as_json=as_json)
    return exit_code(error)


def report_usage(error: typer.BadParameter, *, as_json: bool) -> int:
    """What Typer found wrong with the command line, in the same shape as our own errors."""
    command = "deltasql" if error.ctx is None else error.ctx.command_path
    document = {
        "error": "UsageError",
        "error_class": "config",
        "severity": "error",
        "message": error.format_message(),
        "hint": f"see: {command} --help",
        "field": None,
    }
    _report(document, as_json=as_json)
    return WRONG_USE


def report_bug(error: Exception, *, as_json: bool) -> int:
    """An error that should not have got here. The traceback is for those who ask for it."""
    document = {
        "error": type(error).__name__,
        "error_class": "bug",
        "severity": "critical",
        # The first line: a Java error brings a hundred more.
        "message": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
        "hint": f"this is a bug: run it again with {DEBUG_VARIABLE}=1 and report what it prints",
        "field": None,
    }
    _report(document, as_json=as_json)
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
    return FAILURE


def report_system(error: OSError) -> int:
    """What the operating system said. A reader that has gone, as `head` does, is no error worth a word."""
    if not isinstance(error, BrokenPipeError):
        print_problem(
            f"the system answered: {error}", "put that right, and look at what was done before you run it again"
        )
    return FAILURE


def _report(document: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json({name: _encodable(value) for name, value in document.items()})
    else:
        print_problem(str(document["message"]), cast("str | None", document["hint"]))


def _encodable(value: object) -> object:
    """Text as JSON can hold it: an argument that is no Unicode is spelled out."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
