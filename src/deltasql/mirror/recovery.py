"""Making a log again from the ledger."""

from __future__ import annotations

import time

import msgspec

from deltasql.errors import ForeignCommitError, NotFoundError, TableExistsError
from deltasql.ledger.contracts import MirrorHead, TableEntry, TxnLogReader
from deltasql.log.target import Published
from deltasql.log.writer import DeltaLog
from deltasql.mirror.checkpoint import write_checkpoint
from deltasql.mirror.publish import commit_bytes
from deltasql.protocol.paths import LOG_DIR, commit_name


class RebuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rebuild did. `unchanged` commits stood there with the right bytes already."""

    table: str
    location: str
    first_version: int | None
    last_version: int
    written: int
    unchanged: int
    # Versions whose wrong file was moved aside first, into `_deltasql_quarantine/`.
    replaced: tuple[int, ...] = ()
    checkpoint_version: int | None = None


def rebuild_log(
    reader: TxnLogReader, table: TableEntry, mirrored: MirrorHead, log: DeltaLog, *, force: bool = False
) -> RebuildReport:
    """Write every published commit of the ledger into a log, and a checkpoint where early commits are gone.

    In the table's own place, missing files come back and right ones are left alone. A file with other bytes is
    refused, or with `force` moved aside and written anew. Elsewhere, a log that is not empty needs `force`.
    """
    if mirrored.published_version < 0:
        raise NotFoundError(
            f"table {table.name!r} has no published version yet",
            hint="publish first: deltasql mirror once",
            field="table",
        )
    in_place = log.url == table.location
    last = mirrored.published_version
    present = log.versions()
    if present and not in_place and not force:
        raise TableExistsError(f"{log.url} holds a log already", hint="choose an empty place, or use force", field="to")
    extra = [version for version in present if version > last]
    if extra and not in_place:
        raise ForeignCommitError(
            f"{log.url} holds version {extra[0]}, beyond the ledger's published {last}",
            hint="choose an empty place",
            field="to",
        )
    written, unchanged, first = 0, 0, None
    replaced: list[int] = []
    for commit in reader.commits(table, 0, last):
        if commit.origin == "checkpoint" and commit.found_bytes is None:
            continue
        data = commit_bytes(table, commit)
        first = commit.version if first is None else first
        outcome = log.publish(commit.version, data, timestamp=commit.timestamp)
        if isinstance(outcome, Published):
            written += outcome.created
            unchanged += not outcome.created
        elif force:
            log.quarantine(f"{LOG_DIR}/{commit_name(commit.version)}")
            log.replace_commit(commit.version, data)
            replaced.append(commit.version)
            written += 1
        else:
            raise ForeignCommitError(
                f"{log.url}: version {commit.version} has other bytes than the ledger's",
                hint="use force to move that file aside and write the ledger's version",
                field="to",
            )
    if written:
        log.sync(log.versions())
    checkpoint = mirrored.checkpoint_version if in_place else None
    # Without version 0 a reader can only begin at a checkpoint.
    if first != 0 and log.last_checkpoint() is None:
        now = max(time.time_ns() // 1_000_000, reader.state(table, last).timestamp)
        checkpoint = write_checkpoint(reader, table, log, last, now).version
    return RebuildReport(
        table=table.name,
        location=log.url,
        first_version=first,
        last_version=last,
        written=written,
        unchanged=unchanged,
        replaced=tuple(replaced),
        checkpoint_version=checkpoint,
    )
