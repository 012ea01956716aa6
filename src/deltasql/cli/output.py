"""What a verb prints: JSON for programs; for people tables on a terminal, and plain columns anywhere else."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import msgspec

from deltasql.events import Event

# What a terminal would obey rather than show, and halves of characters: names and messages may come from anywhere.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# No line is broken or cut in a pipe, however long a path is.
_ENDLESS = 1_000_000


def print_json(document: object) -> None:
    """One document, its keys in the order they were given."""
    print_line(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_bytes(data: bytes) -> None:
    """Exactly these bytes."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_problem(message: str, hint: str | None) -> None:
    """What went wrong, and what to do next, where no program takes it for a result."""
    sys.stderr.write(f"error: {printable(message)}\n")
    if hint:
        sys.stderr.write(f"next: {printable(hint)}\n")


def print_event(event: Event) -> None:
    """What happened, as one line with its time."""
    fields = msgspec.to_builtins(event)
    words = ", ".join(f"{name} {_cell(value)}" for name, value in fields.items() if name != "table")
    now = datetime.now(UTC).strftime("%H:%M:%S")
    print_line(f"{now} {printable(event.table)}: {_spaced(type(event).__name__)}, {words}")


def print_event_json(event: Event) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    document = {"at": at, "event": type(event).__name__, **msgspec.to_builtins(event)}
    print_line(msgspec.json.encode(document).decode())


def _spaced(name: str) -> str:
    """`VersionsPublished` as `versions published`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def print_fields(fields: Mapping[str, object]) -> None:
    """Names and values, one pair a line."""
    width = max(map(len, fields))
    for name, value in fields.items():
        print_line(f"{name:<{width}}  {_cell(value)}".rstrip())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    if terminal:
        Console(highlight=False).print(table)
        return
    buffer = io.StringIO()
    Console(file=buffer, width=_ENDLESS, color_system=None, highlight=False).print(table)
    for line in buffer.getvalue().splitlines():
        print_line(line.rstrip())


def printable(text: str) -> str:
    """Text that is safe to show: what is no visible character is spelled out."""
    return _UNSHOWABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def instant(milliseconds: int | None) -> str | None:
    """A moment as people read it, in UTC."""
    if milliseconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # An adopted table may hold any number.
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value)
        return ", ".join(f"{printable(name)}={_cell(item)}" for name, item in pairs.items()) or "-"
    return printable(str(value))
