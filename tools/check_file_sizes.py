"""No file a person reads passes 600 lines. Prints the ones that do, and the ones that are asking for a split."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT = 600
ASKING = 400
FOLDERS = ("src", "tests", "tools", "docs")
SUFFIXES = {".py", ".md", ".toml", ".sql", ".html", ".css", ".js", ""}


def written_files(root: Path) -> Iterator[Path]:
    """Every file of the project that somebody wrote, as opposed to data, lockfiles and caches."""
    yield from sorted(path for path in root.iterdir() if path.suffix in SUFFIXES - {""} and path.is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts and path.is_file():
                yield path


def longer_than(limit: int, root: Path) -> list[tuple[Path, int]]:
    """The written files with more than `limit` lines, each with its length."""
    lengths = ((path.relative_to(root), path.read_bytes().count(b"\n")) for path in written_files(root))
    return [(path, lines) for path, lines in lengths if lines > limit]


def main(root: Path) -> int:
    too_long = longer_than(LIMIT, root)
    for path, lines in longer_than(ASKING, root):
        verdict = f"past {LIMIT}: split it" if lines > LIMIT else "asks for a split"
        print(f"{path}: {lines} lines, {verdict}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent))
