"""The tables that readers are given. Each case builds its tables through the client; a name says how many versions.

A version that is not there proves nothing, so each case states which versions must come out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltasql import Lake
from deltasql.protocol.partitions import NULL_DIRECTORY
from readers.normal import KEY
from readers.values import NEGATIVE_FRACTIONS, PRIMITIVES, STRINGS, TEXT_AND_BYTES


class Case(NamedTuple):
    """Tables to build, with the versions of each that can be read afterwards."""

    build: Callable[[Lake], None]
    versions: Mapping[str, range]


CASES: dict[str, Case] = {}


def _case(**versions: int | range) -> Callable[[Callable[[Lake], None]], Callable[[Lake], None]]:
    def register(build: Callable[[Lake], None]) -> Callable[[Lake], None]:
        ranges = {name: count if isinstance(count, range) else range(count) for name, count in versions.items()}
        CASES[build.__name__] = Case(build, ranges)
        return build

    return register


# -- rows -----------------------------------------------------------------------------------------------------------


def rows(first: int, count: int, **columns: tuple[pa.DataType, Any]) -> pa.Table:
    """Rows with the keys from `first` on; a column is its type and a function of the key, or a list to go through."""
    keys = range(first, first + count)
    data = {KEY: pa.array(keys, pa.int64())}
    for name, (kind, source) in columns.items():
        value = source if callable(source) else lambda key, values=source: values[(key - first) % len(values)]
        data[name] = pa.array([value(key) for key in keys], kind)
    return pa.table(data)


def plain(first: int, count: int) -> pa.Table:
    return rows(
        first,
        count,
        s=(pa.string(), lambda key: f"row {key}" if key % 3 else None),
        x=(pa.float64(), lambda key: key / 4),
    )


def by_day(first: int, count: int) -> pa.Table:
    """Rows of three days and of no day, one after the other."""
    days = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), None]
    return rows(first, count, day=(pa.date32(), lambda key: days[key % 4]), x=(pa.float64(), lambda key: key / 4))


def every_value(columns: Mapping[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    """A row for each value of the longest list, the others repeated, and a row of nulls."""
    count = max(len(values) for _, values in columns.values())
    nulls = {name: (kind, [None]) for name, (kind, _) in columns.items()}
    return pa.concat_tables([rows(0, count, **columns), rows(count, 1, **nulls)])


def primitives() -> pa.Table:
    return every_value(PRIMITIVES | NEGATIVE_FRACTIONS | TEXT_AND_BYTES)


def strings() -> pa.Table:
    """Every string once, and null."""
    values = [*STRINGS, None]
    return rows(0, len(values), p=(pa.string(), values), x=(pa.int64(), [1, 2, None]))


_POINT = pa.struct([pa.field("x", pa.float64(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])
NESTED = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        pa.field("deep", pa.struct([("a", pa.int32()), ("in", pa.struct([("b", pa.string()), ("point", _POINT)]))])),
        pa.field("structs", pa.list_(pa.field("element", pa.struct([("a", pa.int32()), ("b", pa.binary())])))),
        pa.field("lists", pa.list_(pa.field("element", pa.list_(pa.field("element", pa.date32()))))),
        pa.field("map", pa.map_(pa.string(), pa.decimal128(20, 2))),
        pa.field("maps", pa.map_(pa.int32(), pa.struct([("z", pa.list_(pa.field("element", pa.float64())))]))),
        pa.field("required", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ]
)


def nested() -> pa.Table:
    """Values at every level, nulls at every level, and everything empty."""
    at = datetime(2024, 3, 10, 2, 30, 0, 123456, UTC)
    return pa.Table.from_pylist(
        [
            {
                KEY: 0,
                "deep": {"a": 1, "in": {"b": "é", "point": {"x": -0.0, "at": at}}},
                "structs": [{"a": 1, "b": b"\0"}, None, {"a": None, "b": None}],
                "lists": [[date(2024, 1, 1), None], [], None],
                "map": [("b", Decimal("1.50")), ("a", None), ("", Decimal("-0.01"))],
                "maps": [(2, {"z": [1.0, None, float("nan")]}), (1, None), (3, {"z": None}), (0, {"z": []})],
                "required": [1, 2],
            },
            {KEY: 1, "required": []},
            {KEY: 2, "deep": {}, "structs": [], "lists": [], "map": [], "maps": [], "required": []},
            {KEY: 3, "deep": {"in": {}}, "structs": [None], "lists": [None], "map": [("", None)], "required": [3]},
            {KEY: 4, "deep": {"in": {"point": {"x": 0.5}}}, "structs": [{}], "lists": [[]], "required": [4]},
        ],
        schema=NESTED,
    )


# What a case has put in by its last version: the ledger must give back exactly this.
PUT_IN: dict[str, Callable[[], pa.Table]] = {
    "all_primitives": primitives,
    "nested_types": nested,
    "partitioned_by_every_type": lambda: every_value(PRIMITIVES),
    "partitioned_by_strings": strings,
}


# -- cases ----------------------------------------------------------------------------------------------------------


@_case(plain=6)
def unpartitioned(lake: Lake) -> None:
    table = lake.create_table("plain", plain(0, 0).schema)
    table.append(plain(0, 10))
    table.append(plain(10, 10))
    table.delete("k in (3, 4, 13)")
    table.overwrite(plain(100, 5))
    table.append(plain(200, 1))


@_case(days=8)
def removed_files(lake: Lake) -> None:
    table = lake.create_table("days", by_day(0, 0).schema, partition_by=["day"])
    table.append(by_day(0, 12))
    table.delete("day = '2024-01-02'")  # whole files
    table.delete("k = 3 or x >= 2.5")  # files written anew
    table.delete("k = 1000")  # nothing, and so no version
    table.overwrite(by_day(100, 9).slice(0, 1), where="day = '2024-01-01'")
    table.overwrite(by_day(200, 7))
    table.delete()
    table.append(by_day(300, 4))


@_case(all_primitives=4)
def all_primitives(lake: Lake) -> None:
    data = primitives()
    table = lake.create_table("all_primitives", data.schema)
    half = data.num_rows // 2
    table.append(data.slice(0, half))
    table.append(data.slice(half, data.num_rows - half - 1))
    table.append(data.slice(data.num_rows - 1))


@_case(nested_types=3)
def nested_types(lake: Lake) -> None:
    table = lake.create_table("nested_types", NESTED)
    table.append(nested().slice(0, 2))
    table.append(nested().slice(2))


@_case(partitioned_by_every_type=3)
def partitioned_by_every_type(lake: Lake) -> None:
    data = every_value(PRIMITIVES)
    table = lake.create_table("partitioned_by_every_type", data.schema, partition_by=list(PRIMITIVES))
    table.append(data.slice(0, 5))
    table.append(data.slice(5))


@_case(partitioned_by_strings=3)
def partitioned_by_strings(lake: Lake) -> None:
    data = strings()
    table = lake.create_table("partitioned_by_strings", data.schema, partition_by=["p"])
    table.append(data.slice(0, 20))
    # As a partition value the empty string is null: so says the protocol.
    table.append(_with_empty_string(data.slice(20)))


def _with_empty_string(data: pa.Table) -> pa.Table:
    return data.set_column(1, "p", pc.fill_null(data.column("p"), ""))


@_case(binary=2)
def partitioned_by_binary(lake: Lake) -> None:
    # Bytes that are no UTF-8 are refused: as a partition value no reader would give them back.
    data = rows(0, 5, p=(pa.binary(), [b"abc", "é".encode(), b"\0", b"", None]))
    lake.create_table("binary", data.schema, partition_by=["p"]).append(data)


@_case(decimals=2)
def partitioned_by_negative_fractions(lake: Lake) -> None:
    data = every_value(NEGATIVE_FRACTIONS)
    lake.create_table("decimals", data.schema, partition_by=data.schema.names[1:]).append(data)


@_case(null_directory=2)
def partitioned_by_the_null_directory(lake: Lake) -> None:
    data = rows(0, 3, p=(pa.string(), [NULL_DIRECTORY, None, f"{NULL_DIRECTORY}x"]))
    lake.create_table("null_directory", data.schema, partition_by=["p"]).append(data)


@_case(column_names=2, partition_names=2)
def odd_names(lake: Lake) -> None:
    names = [
        "käse",
        "a.b",
        "日本",
        "UPPER",
        "a-b",
        "a`b",
        "1st",
        'a"b',
        "a'b",
        "a/b",
        "a%b",
        "a:b",
        "a?b",
        "😀",
        "a\\b",
    ]
    data = rows(0, 2, **{name: (pa.string(), [name, None]) for name in [*names, "select", "_metadata", "e\u0301"]})
    lake.create_table("column_names", data.schema).append(data)
    data = rows(0, 2, **{name: (pa.string(), [name, None]) for name in ("käse", "a.b", "日本", "😀", "a`b", "_x")})
    lake.create_table("partition_names", data.schema, partition_by=data.schema.names[1:]).append(data)


@_case(escaped=2)
def partition_column_with_escapes(lake: Lake) -> None:
    data = rows(0, 2, **{name: (pa.string(), [name, None]) for name in ("a%b", "a:b", "a/b", 'a"b', "a'b", "a\\b")})
    lake.create_table("escaped", data.schema, partition_by=data.schema.names[1:]).append(data)


@_case(**{"lager.käse & brot #1": 3})
def odd_place(lake: Lake) -> None:
    table = lake.create_table("lager.käse & brot #1", by_day(0, 0).schema, partition_by=["day"])
    table.append(by_day(0, 4))
    table.append(by_day(4, 4))


@_case(empty=7)
def empty_commits(lake: Lake) -> None:
    table = lake.create_table("empty", by_day(0, 0).schema, partition_by=["day"])
    table.append(by_day(0, 0))  # no rows, no file
    table.commit([])  # no action at all
    table.append(by_day(0, 4))
    table.commit([], operation="OPTIMIZE")
    table.append(by_day(0, 0))
    table.overwrite(by_day(0, 0))


@_case(orders=3, lines=3)
def transactions(lake: Lake) -> None:
    lake.create_table("orders", by_day(0, 0).schema, partition_by=["day"])
    lake.create_table("lines", plain(0, 0).schema)
    with lake.transaction() as both:
        both.table("orders").append(by_day(0, 4))
        both.table("lines").append(plain(0, 8))
        both.table("lines").append(plain(8, 2))
    with lake.transaction() as both:
        both.table("orders").delete("k = 1")
        both.table("lines").overwrite(plain(20, 3), where="k >= 4")


@_case(older=3)
def older_protocol(lake: Lake) -> None:
    """Protocol (1, 2), no statistics, another codec."""
    properties = {
        "delta.enableInCommitTimestamps": "false",
        "delta.dataSkippingNumIndexedCols": "0",
        "delta.parquet.compression.codec": "zstd",
    }
    table = lake.create_table("older", plain(0, 0).schema, properties=properties)
    table.append(plain(0, 10))
    table.delete("k = 3")


def _grow(lake: Lake, name: str) -> Path:
    """16 versions published one by one: a checkpoint comes by itself at 10, another at 13 because it is asked for."""
    table = lake.create_table(name, by_day(0, 0).schema, partition_by=["day"])
    for step in range(1, 16):
        if step == 7:
            table.delete("day = '2024-01-03'")
        elif step == 12:
            table.delete("k < 10")
        else:
            table.append(by_day(step * 4, 4))
        lake.mirror()
        if step == 13:
            table.checkpoint()
    log = Path(unquote(table.location.removeprefix("file://"))) / "_delta_log"
    assert sorted(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet")) == [10, 13]
    return log


@_case(checkpoints=16)
def before_and_after_checkpoints(lake: Lake) -> None:
    _grow(lake, "checkpoints")


@_case(cleaned=range(10, 16))
def early_commits_gone(lake: Lake) -> None:
    log = _grow(lake, "cleaned")
    for version in range(10):
        (log / f"{version:020}.json").unlink()
