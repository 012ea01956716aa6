"""Data files that no version refers to: what failed writes leave behind, and what may be removed."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterable
from datetime import timedelta
from urllib.parse import unquote

import msgspec

from deltasql.errors import InvalidInputError, UnsupportedError
from deltasql.ledger.contracts import TableEntry
from deltasql.ops.services import Services
from deltasql.protocol.actions import Action, AddCdcFile, AddFile, Metadata, RemoveFile, UnknownAction
from deltasql.protocol.partitions import partition_path
from deltasql.protocol.paths import LOG_DIR, decode_path, is_absolute
from deltasql.protocol.vectors import vector_path

SAFE_AGE = timedelta(days=7)


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A data file that no version refers to. `path` is below the table's folder and not percent-encoded."""

    path: str
    size: int
    age: timedelta


def find_leftovers(services: Services, entry: TableEntry, older_than: timedelta = SAFE_AGE) -> list[Leftover]:
    """The files in a table's folder that no version of the ledger refers to and that are old enough, by path.

    Only what looks like a data file or a deletion vector counts. The log, folders that Delta hides, and other tables
    below this one's folder are passed over.
    """
    if older_than < timedelta(0):
        raise InvalidInputError(f"older_than is {older_than}", hint="give an age of zero or more", field="older_than")
    now = time.time_ns() // 1_000_000
    # Listed before the ledger is read: a file that is committed in between is then found there.
    found = list(services.store_at(entry.location).list())
    known = _Known(entry)
    for commit in services.reader.commits(entry, 0, services.reader.head(entry).version):
        known.learn(commit.actions)
    others = _other_tables(services, entry, [meta.key for meta in found])
    leftovers = (
        Leftover(path=meta.key, size=meta.size, age=timedelta(milliseconds=max(now - meta.modified, 0)))
        for meta in found
        if _is_data(meta.key) and not meta.key.startswith(others) and not known.covers(meta.key)
    )
    return [leftover for leftover in leftovers if leftover.age >= older_than]


class _Known:
    """What a table's versions say about its folder."""

    def __init__(self, entry: TableEntry) -> None:
        self._entry = entry
        self._keys: set[str] = set()
        self._names: set[str] = set()
        self._partitions: set[str] = set()

    def learn(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case AddFile() | RemoveFile():
                    self._refer(action.path)
                    if action.deletion_vector is not None and (path := vector_path(action.deletion_vector)):
                        self._refer(path, escaped=action.deletion_vector.storage_type == "p")
                case AddCdcFile():
                    self._refer(action.path)
                case Metadata():
                    # As the folder of each is named, up to its value.
                    named = (partition_path({name: None}, [name]) for name in action.partition_columns)
                    self._partitions.update(folder.partition("=")[0] + "=" for folder in named)
                case UnknownAction():
                    raise UnsupportedError(
                        f"table {self._entry.name!r} has actions of the kind {action.name!r:.50}, and which files "
                        "these refer to is not known here",
                        hint="clean this table with the engine that writes such actions",
                        field="table",
                    )
                case _:
                    pass

    def _refer(self, path: str, *, escaped: bool = True) -> None:
        key = decode_path(path) if escaped else path
        if is_absolute(path):
            # The same folder may be spelled in many ways (a link, another scheme), so the name alone protects a file.
            self._names.add(posixpath.basename(key))
        else:
            self._keys.add(posixpath.normpath(key))

    def covers(self, key: str) -> bool:
        """Does a version refer to this file, or is it hidden?"""
        folders_and_name = key.split("/")
        partitions = tuple(self._partitions)
        hidden = any(part.startswith(("_", ".")) and not part.startswith(partitions) for part in folders_and_name)
        return hidden or key in self._keys or folders_and_name[-1] in self._names


def _is_data(key: str) -> bool:
    name = posixpath.basename(key)
    return name.endswith(".parquet") or (name.startswith("deletion_vector_") and name.endswith(".bin"))


def _other_tables(services: Services, entry: TableEntry, keys: Iterable[str]) -> tuple[str, ...]:
    """The folders below this one that belong to another table, in the ledger or not."""
    below, log = f"{entry.location}/", f"/{LOG_DIR}/"
    listed = {f"{unquote(t.location.removeprefix(below))}/" for t in services.reader.tables() if _is_below(t, below)}
    strangers = {key.partition(log)[0] + "/" for key in keys if log in key}
    return tuple(listed | strangers)


def _is_below(table: TableEntry, folder: str) -> bool:
    return table.location.startswith(folder)
