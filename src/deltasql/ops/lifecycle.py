"""Giving a table another name, and dropping it, with its files or without."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from deltasql.errors import InvalidInputError, StorageError
from deltasql.ledger.contracts import TableEntry
from deltasql.ledger.lifecycle import Dropped, Lifecycle
from deltasql.ops.services import Services
from deltasql.protocol.paths import LOG_DIR
from deltasql.storage.base import ObjectStore
from deltasql.storage.locations import local_path, normalise_url


class DropReport(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was dropped. `files` and `bytes` were removed from its folder."""

    table: str
    location: str
    version: int
    unpublished: int
    files: int = 0
    bytes: int = 0


def drop_table(
    services: Services, lifecycle: Lifecycle, entry: TableEntry, *, data: bool = False, force: bool = False
) -> DropReport:
    """Take a table out of the ledger. Its files and its log stay, unless `data` asks for their removal too.

    The ledger comes first: no reader finds a table there whose files are half gone.
    """
    if not data:
        return _report(lifecycle.drop(entry, force=force))
    store = services.store_at(entry.location)
    _refuse_neighbours(services, entry, store)
    report = _report(lifecycle.drop(entry, force=force, data=True))
    files, size = 0, 0
    try:
        # The log first, so that nobody who reads by path meets a log whose files are gone.
        for prefix in (f"{LOG_DIR}/", ""):
            for meta in list(store.list(prefix)):
                store.delete(meta.key)
                files, size = files + 1, size + meta.size
    except StorageError as error:
        raise type(error)(
            f"table {entry.name!r} is out of the ledger, but {entry.location} could not be emptied: {error.message}",
            hint="put that right, then remove the folder by hand",
            field="data",
        ) from error
    _remove_folders(entry.location)
    return msgspec.structs.replace(report, files=files, bytes=size)


def _report(dropped: Dropped) -> DropReport:
    return DropReport(
        table=dropped.table.name,
        location=dropped.table.location,
        version=dropped.version,
        unpublished=dropped.unpublished,
    )


def _refuse_neighbours(services: Services, entry: TableEntry, store: ObjectStore) -> None:
    """Refuse to remove a folder that holds more than the table: other tables, or the ledger itself."""
    below = f"{entry.location}/"
    tables = [f"table {each.name}" for each in services.reader.tables() if each.location.startswith(below)]
    logs = _nested_logs(meta.key for meta in store.list())
    ledger = [f"the ledger {path}" for path in _ledger_file(services.ledger) if _is_below(path, entry.location)]
    if found := [*ledger, *tables, *logs]:
        raise InvalidInputError(
            f"{entry.location} holds more than table {entry.name!r}: {', '.join(found[:5])}",
            hint="drop the table without its data, and remove its files by hand",
            field="data",
        )


def _nested_logs(keys: Iterable[str]) -> list[str]:
    """The folders of Delta tables that no ledger needs to know of."""
    inner = f"/{LOG_DIR}/"
    return sorted({f"a Delta table in {key.partition(inner)[0]}" for key in keys if inner in key})


def _ledger_file(url: str) -> list[Path]:
    """The file that an embedded database lives in."""
    scheme, _, rest = url.partition("://")
    place = local_path(f"file://{rest}") if scheme in ("sqlite", "duckdb") else None
    return [] if place is None else [place]


def _is_below(path: Path, location: str) -> bool:
    folder = local_path(normalise_url(location))
    return folder is not None and path.resolve().is_relative_to(folder.resolve())


def _remove_folders(location: str) -> None:
    """Remove the folders that are empty now, where there are folders at all."""
    root = local_path(location)
    if root is None:
        return
    for folder, _, _ in os.walk(root, topdown=False):
        # One that is not empty holds something that is not the table's.
        with suppress(OSError):
            Path(folder).rmdir()
