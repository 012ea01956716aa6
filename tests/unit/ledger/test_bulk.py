"""Rows by the thousand: however a database takes them, what comes out is what went in, and the counts are right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from deltasql.errors import LedgerError
from deltasql.ledger import statements as sql
from deltasql.ledger.contracts import LIVE
from deltasql.ledger.dialects.base import Change, EndLives, Insert
from deltasql.ledger.engine import Ledger

pytestmark = pytest.mark.unit

# On both sides of the numbers from which on DuckDB and PostgreSQL take rows in another way.
NUMBERS = (1, 7, 8, 99, 100, 5000)

HOSTILE = (
    *("plain", "", " ", " padded ", "it's", 'say "so"', "`tick`", "a,b;c|d", "{1,2}", "(1,2)", "--", "/*", "$$"),
    *("tab\tbed", "line\nbreak", "carriage\rreturn", "\r\n", "back\\slash", "\\", "\\\\", "\\N", "\\.", "\\n", "\\t"),
    *(
        "\\x41",
        "%",
        "%s",
        "%%",
        "?",
        "??",
        ":name",
        "$1",
        "@x",
        "NULL",
        "null",
        "None",
        "\x01\x07\x1b\x7f",
        "\x85\u2028",
    ),
    *("Größe", "日本語", "𝄞🦆", "e\u0301", "\ufeffmark", "\u202eabc", "\uffff", "x" * 5_000),
)

COLUMNS = (
    *("table_id", "version", "ordinal", "path", "dv_id", "partition_values", "size", "modification_time"),
    *("data_change", "stats", "tags", "base_row_id", "removed_version", "file_key"),
)


def row(number: int) -> tuple[Any, ...]:
    hostile = HOSTILE[number % len(HOSTILE)]
    return (
        *(1, number // 1000, number, f"{number}/{hostile}", hostile, "{}", 2**62 - number, -number, number % 2 == 0),
        # Columns that are empty at first, at times, and always.
        *(None if number < 200 else hostile, None if number % 3 else hostile, None, LIVE, (-1) ** number * (2**63 - 1)),
    )


def insert(rows: list[tuple[Any, ...]]) -> Insert:
    return Insert("dl_add_files", COLUMNS, rows)


def found(ledger: Ledger) -> list[tuple[Any, ...]]:
    with ledger.read() as session:
        rows = session.rows(f"SELECT {', '.join(COLUMNS)} FROM dl_add_files ORDER BY table_id, ordinal")
    # SQLite has no truth values of its own.
    return [(*row[:8], bool(row[8]), *row[9:]) for row in rows]


@pytest.mark.parametrize("number", NUMBERS)
def test_rows_come_out_as_they_went_in(ledger: Ledger, number: int) -> None:
    rows = [row(n) for n in range(number)]
    with ledger.write() as session:
        assert session.send([insert(rows)]) == [number]
    assert found(ledger) == rows


@pytest.mark.parametrize("number", NUMBERS)
def test_rows_of_bytes_come_out_as_they_went_in(ledger: Ledger, number: int) -> None:
    data = [None if n % 5 == 4 else bytes([n % 256]) + bytes(range(256)) for n in range(number)]
    rows = [
        (1, n, 0, None, None, None, 1, 1, "", 1, found, "adopted", None, None, None) for n, found in enumerate(data)
    ]
    with ledger.write() as session:
        assert session.send([Insert("dl_table_versions", sql.VERSION_COLUMNS, rows)]) == [number]
    with ledger.read() as session:
        read = session.rows("SELECT found_bytes FROM dl_table_versions ORDER BY version")
    assert [None if value is None else bytes(value) for (value,) in read] == data


@pytest.mark.parametrize("number", NUMBERS)
def test_lives_end_for_those_who_are_named_and_live(ledger: Ledger, number: int) -> None:
    rows = [row(n) for n in range(number)]
    other_table = [(2, *row[1:]) for row in rows[:3]]
    over = [(3, *row[1:-2], 5, row[-1]) for row in rows[:3]]
    with ledger.write() as session:
        session.send([insert([*rows, *other_table, *over])])
    key = ("file_key", "path", "dv_id")
    keys = [(row[13], row[3], row[4]) for row in rows]
    strangers = [(1, "nowhere", ""), (rows[0][13], rows[0][3], "another vector"), (1, rows[0][3], rows[0][4])]
    named = [*keys[1:], *strangers] if number > 1 else [*keys, *strangers]
    with ledger.write() as session:
        assert session.send([EndLives("dl_add_files", "removed_version", key, 1, 9, named)]) == [len(named) - 3]
        # They are over, so they do not end again.
        assert session.send([EndLives("dl_add_files", "removed_version", key, 1, 10, named)]) == [0]
        assert session.send([EndLives("dl_add_files", "removed_version", key, 3, 10, named)]) == [0]
    kept = 1 if number > 1 else 0
    ended = [(*row[:12], 9, row[13]) for row in rows[kept:]]
    assert found(ledger) == [*rows[:kept], *ended, *other_table, *over]


@pytest.mark.parametrize("number", NUMBERS)
def test_lives_end_by_a_name_alone(ledger: Ledger, number: int) -> None:
    names = [(f"{n}{HOSTILE[n % len(HOSTILE)]}",) for n in range(number)]
    columns = ("table_id", "version", "ordinal", "app_id", "txn_version", "superseded_version")
    rows = [(1, 0, n, name, n, LIVE) for n, (name,) in enumerate(names)]
    with ledger.write() as session:
        assert session.send([Insert("dl_txn_actions", columns, rows)]) == [number]
        ends = EndLives("dl_txn_actions", "superseded_version", ("app_id",), 1, 4, names)
        assert session.send([ends]) == [number]
        assert session.row("SELECT COUNT(*) FROM dl_txn_actions WHERE superseded_version = 4") == (number,)


@pytest.mark.parametrize("number", [2, 8, 100])
def test_a_life_that_is_named_twice_ends_once(ledger: Ledger, number: int) -> None:
    rows = [row(n) for n in range(number)]
    keys = [(row[13], row[3], row[4]) for row in rows]
    ends = EndLives("dl_add_files", "removed_version", ("file_key", "path", "dv_id"), 1, 9, [*keys, *keys])
    with ledger.write() as session:
        session.send([insert(rows)])
        assert session.send([ends]) == [number]


def test_nothing_is_no_work(ledger: Ledger) -> None:
    ends = EndLives("dl_add_files", "removed_version", ("path",), 1, 9, [])
    with ledger.write() as session:
        assert session.send([]) == []
        assert session.send([insert([]), ends]) == [0, 0]
    assert found(ledger) == []


def test_many_writes_of_every_size_are_counted_each_for_itself(ledger: Ledger) -> None:
    starts = [0, 1, 8, 16, 115, 215, 515]
    parts = [[row(n) for n in range(a, b)] for a, b in pairwise(starts)]
    change = Change("INSERT INTO dl_lake VALUES (?, ?, 1)", ("lake", "?%s"))
    nobody = Change("UPDATE dl_lake SET root = 'x' WHERE lake_id = ?", ("nobody",))
    ends = EndLives("dl_txn_actions", "superseded_version", ("app_id",), 1, 4, [("nobody",)])
    writes = [change, *(insert(part) for part in parts), insert([]), nobody, ends]
    with ledger.write() as session:
        assert session.send(writes) == [1, *(len(part) for part in parts), 0, 0, 0]
        assert session.row("SELECT lake_id, root FROM dl_lake") == ("lake", "?%s")
    assert found(ledger) == [row(n) for n in range(515)]


@pytest.mark.parametrize("number", NUMBERS)
def test_one_row_too_many_takes_all_others_with_it(ledger: Ledger, number: int) -> None:
    rows = [row(n) for n in range(number)]

    def write_twice() -> None:
        with ledger.write() as session:
            session.send([insert(rows), Insert("dl_add_files", COLUMNS, [rows[-1]])])

    with pytest.raises(LedgerError):
        write_twice()
    assert found(ledger) == []
    # The connection is as good as before.
    with ledger.write() as session:
        assert session.send([insert(rows)]) == [number]
    assert found(ledger) == rows
