"""What a ledger refuses, in the words that every ledger uses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from deltasql.errors import (
    InvalidInputError,
    LedgerBusyError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from deltasql.ledger.contracts import CommitDraft, TableEntry, TableHead


def no_table(name: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"there is no table {name!r} in this ledger", hint="list the tables with: deltasql table list", field="table"
    )


def table_exists(name: str) -> TableExistsError:
    hint = "use lake.table(name), or another name"
    return TableExistsError(f"table {name!r} exists already", hint=hint, field="name")


def location_taken(location: str, name: str) -> TableExistsError:
    return TableExistsError(f"{location} is the location of table {name!r}", hint="use that table", field="location")


def no_version(table: TableEntry, wanted: str, first: TableHead, head: TableHead) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"table {table.name!r} has no {wanted}; its history goes from version {first.version} ({first.timestamp} ms) "
        f"to {head.version} ({head.timestamp} ms)",
        hint="ask for a version or time inside that range",
        field="version",
    )


def check_version(version: object) -> None:
    """Refuse what is no number; one that names no version is told so by the history."""
    if type(version) is not int:
        raise InvalidInputError(f"{version!r:.60} is not a version", hint="give a whole number", field="version")


def check_limit(limit: int | None) -> None:
    if limit is not None and (type(limit) is not int or not 0 <= limit < 2**63):
        raise InvalidInputError(f"{limit!r:.60} is no number of rows", hint="give one from 0 on", field="limit")


def check_read_version(draft: CommitDraft, head: int) -> None:
    """Refuse a version that nobody can have read."""
    # By its type too: what compares like a version, such as 0.5 or True, is none.
    if draft.read_version is not None and not (type(draft.read_version) is int and 0 <= draft.read_version <= head):
        raise InvalidInputError(
            f"{draft.table}: version {draft.read_version} was not committed; the newest is {head}",
            hint="give the version you read",
            field="read_version",
        )


def not_a_file(table: str, path: str) -> InvalidInputError:
    return InvalidInputError(
        f"{table}: {path!r} is not a file of the table",
        hint="remove only files of the version you read",
        field="actions",
    )


def lease_lost(table: TableEntry) -> LedgerBusyError:
    return LedgerBusyError(
        f"{table.name}: another publisher took over the lease", hint="nothing is wrong; it will go on from here"
    )


def published_elsewhere(table: TableEntry, version: int) -> LedgerBusyError:
    return LedgerBusyError(
        f"{table.name}: version {version} is not the published one any more",
        hint="another publisher went on with this table; nothing is wrong",
    )


def check_published(table: TableEntry, versions: Sequence[int], head: int) -> None:
    """Refuse to call published what is not a run of committed versions."""
    if not versions or any(after != before + 1 for before, after in pairwise(versions)) or versions[-1] > head:
        raise InvalidInputError(
            f"{table.name}: {list(versions)[:5]} are not consecutive versions up to {head}",
            hint="publish the versions that `unpublished` gives, in order",
            field="versions",
        )
