"""The file that the URL of an embedded database names."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from deltasql.errors import ConfigError


def path_in(url: str, database: str) -> Path:
    """The absolute path in `scheme:///path`. Such a URL has no options."""
    scheme, _, quoted = url.partition("://")
    if "?" in quoted or "#" in quoted:
        raise ConfigError(
            f"the URL of a {database} ledger has no options",
            hint="leave out what follows ? or #; in the name of a file, write %3F or %23",
            field="ledger",
        )
    path = unquote(quoted)
    if not _can_name_a_file(path):
        raise ConfigError(
            f"a {database} ledger needs a file that other processes can open too",
            hint=f"give one like {scheme}:///lake.db (a relative path) or {scheme}:////data/lake.db (an absolute one)",
            field="ledger",
        )
    return Path(path[1:]).absolute()


def _can_name_a_file(path: str) -> bool:
    """Whether the part of a URL after `://` is a slash and a path."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return path.startswith("/") and path not in ("/", "/:memory:") and "\0" not in path
