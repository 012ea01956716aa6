"""A ledger of the first release that was in use: what the second migration adds to its rows, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from deltasql.ledger.contracts import LIVE
from deltasql.ledger.dialects.base import Insert
from deltasql.ledger.engine import Ledger, Session, open_ledger
from deltasql.ledger.migrate import migrate
from deltasql.ledger.reader import SqlTxnLogReader
from deltasql.ledger.rows import file_key
from deltasql.ledger.writer import SqlTxnLogWriter
from deltasql.protocol.rebase import NO_ROW_IDS, ROW_TRACKING_DOMAIN
from ledger_samples import add, draft, metadata, paths, remove, vector
from ledger_schemas import Rows, rows_of

pytestmark = pytest.mark.unit

VECTOR = msgspec.json.encode(vector("abc")).decode()

ADDED = {
    "dl_table_heads": {"row_id_high_water"},
    "dl_table_versions": {"committed_by", "db_user"},
    "dl_add_files": {"file_key"},
    "dl_remove_files": {"file_key"},
}


def put(session: Session, table: str, *rows: dict[str, Any]) -> None:
    for row in rows:
        session.send([Insert(table, tuple(row), [tuple(row.values())])])


def put_table(session: Session, name: str, head: int, protocol: int = 0) -> int:
    session.change(
        "INSERT INTO dl_tables (name, location, created_at) VALUES (?, ?, 1)", (name, f"memory://lake/{name}")
    )
    (number,) = session.rows("SELECT table_id FROM dl_tables WHERE name = ?", (name,))[0]
    put(
        session,
        "dl_table_heads",
        {
            "table_id": number,
            "version": head,
            "timestamp": head + 1,
            "metadata_version": 0,
            "protocol_version": protocol,
            "in_commit_timestamps": False,
        },
    )
    put(session, "dl_mirror_heads", {"table_id": number, "published_version": head})
    description = metadata()
    put(
        session,
        "dl_metadata_updates",
        {
            "table_id": number,
            "version": 0,
            "ordinal": 2,
            "id": name,
            "format": '{"provider":"parquet","options":{}}',
            "schema_string": description.schema_string,
            "partition_columns": "[]",
            "configuration": "{}",
        },
    )
    for version in range(head + 1):
        put(
            session,
            "dl_table_versions",
            {
                "table_id": number,
                "version": version,
                "timestamp": version + 1,
                "operation": "WRITE",
                "commit_info": None,
                "num_actions": 1,
                "size": 1,
                "sha256": "-",
                "encoder": 1,
                "found_bytes": b"\x00\xff",
                "origin": "adopted",
                "token": f"{name}-{version}",
            },
        )
        put(
            session,
            "dl_mirror_status",
            {"table_id": number, "version": version, "state": "SUCCESS", "attempts": 1, "created_at": 1},
        )
    return number


def put_protocol(session: Session, number: int, version: int, *features: str) -> None:
    listed = "[" + ",".join(f'"{feature}"' for feature in features) + "]"
    put(
        session,
        "dl_protocol_updates",
        {
            "table_id": number,
            "version": version,
            "ordinal": 1,
            "min_reader_version": 1,
            "min_writer_version": 7,
            "writer_features": listed,
        },
    )


def put_mark(session: Session, number: int, version: int, mark: int, end: int = LIVE, *, removed: bool = False) -> None:
    put(
        session,
        "dl_domain_metadata",
        {
            "table_id": number,
            "version": version,
            "ordinal": 9,
            "domain": ROW_TRACKING_DOMAIN,
            "configuration": f'{{"rowIdHighWaterMark":{mark}}}',
            "removed": removed,
            "superseded_version": end,
        },
    )


def added(number: int, version: int, ordinal: int, path: str, dv_id: str = "", end: int = LIVE) -> dict[str, Any]:
    return {
        "table_id": number,
        "version": version,
        "ordinal": ordinal,
        "path": path,
        "dv_id": dv_id,
        "partition_values": "{}",
        "size": 10,
        "modification_time": 1,
        "data_change": True,
        "deletion_vector": VECTOR if dv_id else None,
        "removed_version": end,
    }


def removed(number: int, version: int, ordinal: int, path: str, dv_id: str = "", end: int = LIVE) -> dict[str, Any]:
    return {
        "table_id": number,
        "version": version,
        "ordinal": ordinal,
        "path": path,
        "dv_id": dv_id,
        "deletion_timestamp": 5,
        "data_change": True,
        "deletion_vector": VECTOR if dv_id else None,
        "superseded_version": end,
    }


def fill(session: Session) -> None:
    put(session, "dl_lake", {"lake_id": "lake", "root": "memory://lake", "created_at": 1})
    plain = put_table(session, "plain", 3)
    put_protocol(session, plain, 0, "deletionVectors")
    put(
        session,
        "dl_add_files",
        added(plain, 0, 3, "a.parquet", end=1),
        added(plain, 0, 4, "b.parquet"),
        added(plain, 0, 5, "it's%20ü.parquet"),
        # The same file three times: whole, with a vector, and with another.
        added(plain, 1, 1, "a.parquet", "uabc@1", end=2),
        added(plain, 2, 1, "a.parquet", "uxyz@1"),
        *(added(plain, 3, n, f"{n}.parquet") for n in range(300)),
    )
    put(
        session,
        "dl_remove_files",
        removed(plain, 1, 2, "a.parquet"),
        removed(plain, 2, 2, "a.parquet", "uabc@1"),
        removed(plain, 3, 400, "back.parquet", end=3),
    )
    tracking = put_table(session, "tracking", 2)
    put_protocol(session, tracking, 0, "domainMetadata", "rowTracking")
    put_mark(session, tracking, 0, 9, end=2)
    put_mark(session, tracking, 2, 41)
    put(session, "dl_add_files", added(tracking, 0, 3, "b.parquet"))
    fresh = put_table(session, "fresh", 0)
    put_protocol(session, fresh, 0, "domainMetadata", "rowTracking")
    dropped = put_table(session, "dropped", 1, protocol=1)
    put_protocol(session, dropped, 0, "domainMetadata", "rowTracking")
    put_protocol(session, dropped, 1, "domainMetadata")
    put_mark(session, dropped, 0, 7)
    alike = put_table(session, "alike", 0)
    put_protocol(session, alike, 0, "rowTracking-preview", "notrowTracking")


@pytest.fixture
def used(empty_url: str) -> Iterator[Ledger]:
    """A ledger of the first release, in use."""
    ledger = Ledger(empty_url)
    migrate(ledger, "0001")
    with ledger.write() as session:
        fill(session)
    yield ledger
    ledger.close()


def without(rows: Rows, columns: dict[str, set[str]]) -> Rows:
    return {
        name: sorted(
            ({key: value for key, value in row.items() if key not in columns.get(name, ())} for row in found), key=str
        )
        for name, found in rows.items()
    }


def test_every_file_gets_its_key(used: Ledger) -> None:
    migrate(used, "0002")
    found = rows_of(used)
    for name, number in (("dl_add_files", 306), ("dl_remove_files", 3)):
        assert len(found[name]) == number
        for row in found[name]:
            assert row["file_key"] == file_key(row["path"], row["dv_id"])
    # A vector makes another file of it.
    assert len({row["file_key"] for row in found["dl_add_files"] if row["path"] == "a.parquet"}) == 3


def test_a_table_that_tracks_rows_gets_its_mark(used: Ledger) -> None:
    migrate(used, "0002")
    with used.read() as session:
        marks = session.rows(
            "SELECT t.name, h.row_id_high_water FROM dl_tables t JOIN dl_table_heads h ON h.table_id = t.table_id"
        )
    assert dict(marks) == {"plain": None, "tracking": 41, "fresh": NO_ROW_IDS, "dropped": None, "alike": None}


def test_a_mark_that_was_taken_back_is_none(used: Ledger) -> None:
    with used.write() as session:
        number = put_table(session, "taken back", 1)
        put_protocol(session, number, 0, "domainMetadata", "rowTracking")
        put_mark(session, number, 0, 41, end=1)
        put_mark(session, number, 1, 41, removed=True)
    migrate(used, "0002")
    with used.read() as session:
        head = session.row("SELECT row_id_high_water FROM dl_table_heads WHERE table_id = ?", (number,))
    assert head == (NO_ROW_IDS,)


def test_nothing_else_is_touched(used: Ledger) -> None:
    before = rows_of(used)
    migrate(used, "0002")
    after = rows_of(used)
    assert after.pop("dl_audit") == []
    (version,), (earlier,) = after.pop("dl_schema_version"), before.pop("dl_schema_version")
    assert (earlier, version) == ({"version_num": "0001"}, {"version_num": "0002"})
    assert without(after, ADDED) == before
    assert {name: set(rows[0]) - set(before[name][0]) for name, rows in after.items() if rows and before[name]} == {
        name: ADDED.get(name, set()) for name, rows in before.items() if rows
    }


def test_nobody_is_said_to_have_made_the_old_commits(used: Ledger) -> None:
    migrate(used, "0002")
    with used.read() as session:
        makers = set(session.rows("SELECT committed_by, db_user FROM dl_table_versions"))
    assert makers == {(None, None)}


def test_a_migrated_ledger_goes_on_where_it_was(used: Ledger) -> None:
    migrate(used)
    ledger = open_ledger(used.url, create=False)
    writer, reader = SqlTxnLogWriter(ledger), SqlTxnLogReader(ledger)
    plain = reader.table("plain")
    assert reader.head(plain).version == 3
    before = paths(reader.files(plain, 3))
    assert len(before) == 303
    outcome = writer.commit([draft("plain", remove("b.parquet"), add("c.parquet"))])
    assert isinstance(outcome, tuple)
    assert outcome[0].version == 4
    assert set(paths(reader.files(plain, 4))) == {*before, "c.parquet"} - {"b.parquet"}
    writer.commit([draft("tracking", add("c.parquet", stats='{"numRecords":5}'))])
    with ledger.read() as session:
        file = session.row("SELECT base_row_id FROM dl_add_files WHERE path = 'c.parquet' AND base_row_id IS NOT NULL")
    assert file == (42,)
    ledger.close()
