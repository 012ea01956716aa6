"""How things are printed, on a terminal and elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltasql.cli import output, table
from deltasql.protocol.schema import parse_schema

pytestmark = pytest.mark.unit


class TestOutput:
    def test_a_pipe_gets_plain_columns_uncut(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "40")
        path = "p" * 500
        output.print_table(["path", "n"], [(path, 1), ("[red]x[/red] :smile:", None)])
        assert capsys.readouterr().out.splitlines() == [
            f"path{' ' * 496}  n",
            f"{path}  1",
            f"[red]x[/red] :smile:{' ' * 480}  -",
        ]

    def test_a_terminal_gets_a_table_that_fits(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        output.print_table(["path"], [("p" * 100,)])
        lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
        assert max(map(len, lines)) <= 40
        assert "".join(re.findall("p+", "".join(lines[1:]))) == "p" * 100
        assert any("─" in line for line in lines)

    @pytest.mark.parametrize(
        "text", ["\x1b[2Jgone", "two\nlines", "bell\x07", "\x9b31m", "\u202etxt.exe", "half\ud800"]
    )
    def test_nothing_reaches_the_terminal_that_it_would_obey(
        self, capsys: pytest.CaptureFixture[str], text: str
    ) -> None:
        output.print_table(["a"], [(text,)])
        output.print_fields({"a": text, "b": {text: text}})
        output.print_problem(text, text)
        shown = "".join(capsys.readouterr())
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", shown)
        assert shown.count("\n") == 6
        assert shown.count(output.printable(text)) == 6

    @pytest.mark.parametrize(
        ("milliseconds", "shown"),
        [
            (None, None),
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_860_800_123, "2026-01-31T12:00:00.123Z"),
            (2**62, f"{2**62} ms"),
        ],
    )
    def test_a_moment_is_shown_in_utc(self, milliseconds: int | None, shown: str | None) -> None:
        assert output.instant(milliseconds) == shown

    def test_types_are_written_in_one_line(self) -> None:
        element = '{"type":"array","elementType":"decimal(5,2)","containsNull":true}'
        kind = f'{{"type":"map","keyType":"string","valueType":{element},"valueContainsNull":true}}'
        field = f'{{"name":"m","type":{kind},"nullable":true,"metadata":{{}}}}'
        schema = parse_schema(f'{{"type":"struct","fields":[{field}]}}')
        assert table.type_name(schema) == "struct<m:map<string,array<decimal(5,2)>>>"

    def test_a_full_disk_is_no_bug(self, tmp_path: Path) -> None:
        """Through a real file: the error comes from the operating system."""
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "deltasql.cli.main", "--version"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": ""},
            )
        assert done.returncode == 1
        assert done.stderr.startswith("error: the system answered: ")
        assert "bug" not in done.stderr
        assert "Traceback" not in done.stderr
