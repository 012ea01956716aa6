"""Files of random rows, what their statistics may say of them, and random predicates over them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltasql.protocol.actions import AddFile
from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.numbers import java_double, java_float, single
from deltasql.protocol.partitions import partition_value
from deltasql.protocol.predicate_literals import spell
from deltasql.protocol.schema import DataType, DecimalType, PrimitiveType, leaves
from deltasql.protocol.stats import collect_stats, cut_maximum, cut_minimum
from predicate_samples import FILE_SCHEMA as SCHEMA
from predicate_samples import PARTITIONED

START, EARLY = datetime(2024, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)
INSTANTS = [
    origin + timedelta(microseconds=micro) for origin in (START, EARLY) for micro in (-1, 0, 1, 999, 1000, 1500)
]
SMALL = [0.0, -0.0, 0.1, 0.2, 1.5, -3.0, math.nan, math.inf, -math.inf]
STEM = "x" * 31
POOLS: dict[str, list[Any]] = {
    "p": ["a", "b", "é"],
    "day": [date(2024, 1, 1), date(2024, 1, 2)],
    "w": [single(value) for value in SMALL],
    "at": INSTANTS,
    "id": [0, 1, 2, 5, -7, 2**53 + 1, 2**63 - 1],
    "s": ["", "a", "ab", "b", *(STEM + tail for tail in ("", "a", "ab", "abc", "aé", "a\U0010ffff\U0010ffffz", "éé"))],
    "x": SMALL,
    "f": [single(value) for value in SMALL],
    "d": [date(2024, 1, 1), date(2024, 1, 2), date(1960, 1, 1)],
    "ts": INSTANTS,
    "ntz": [instant.replace(tzinfo=None) for instant in INSTANTS],
    "dec": [Decimal(text) for text in ("0.10", "0.11", "123456789012345678.91", "123456789012345678.92", "-1.00")],
    "money": [Decimal(text) for text in ("0.10", "0.11", "99999999.99", "-1.00")],
    "b": [True, False],
    "bin": [b"", b"a", b"\xff"],
    "st.u": [0, 1, 2],
    "st.v": ["a", "ab", "b"],
}
OTHERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["id", "st.u"], ("1.5", "1e300", "-1e300", "9007199254740992", "'1'")),
    **dict.fromkeys(["x", "f", "w"], ("0.1", "1e308", "CAST(0.1 AS FLOAT)", "0.15")),
    **dict.fromkeys(["dec", "money"], ("0.105", "0.1D", "123456789012345680", "1e300")),
    **dict.fromkeys(["d", "day"], ("TIMESTAMP '2024-01-01 00:00:00.000001'", "'2024'")),
    **dict.fromkeys(["ts", "ntz", "at"], ("DATE '2024-01-01'", "'2024-01-01 00:00:00.001'")),
}
COMPARABLE = [("id", "st.u"), ("x", "f"), ("id", "x"), ("dec", "money"), ("id", "dec"), ("d", "ts"), ("ts", "ntz")]
COMPARABLE += [("p", "s"), ("day", "at"), ("w", "x"), ("w", "w"), ("at", "ts"), ("s", "st.v")]


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...] = tuple(POOLS)) -> str:
    name = draw(st.sampled_from(names))
    literal = st.sampled_from([*map(spell, POOLS[name]), *OTHERS.get(name, ())])
    first, second = draw(literal), draw(literal)
    sign = draw(st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="]))
    negated = draw(st.sampled_from(["", "NOT "]))
    forms = [
        f"{name} {sign} {first}",
        f"{name} {sign} {first}",
        f"{name} {negated}IN ({first}, {second})",
        f"{name} {negated}IN ({first}, NULL, {second})",
        f"{name} {negated}BETWEEN {first} AND {second}",
        f"{name} IS {negated}NULL",
    ]
    if name in {"p", "s", "st.v"}:
        pattern = draw(st.sampled_from(["a%", "%", "_", "%b", f"{STEM}%", f"{STEM}a%", f"{STEM}_", "b%", "é%"]))
        forms = [*forms[1:], f"{name} {negated}LIKE '{pattern}'", f"{name} {negated}LIKE '{pattern}'"]
    pairs = [f"{left} {sign} {right}" for left, right in COMPARABLE if {left, right} <= set(names)]
    return draw(st.sampled_from([*forms, draw(st.sampled_from(pairs))]))


def combined(leaf: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda text: f"NOT ({text})"),
        ),
        max_leaves=4,
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[pa.Table, AddFile, list[bool]]:
    """Rows of one partition, the file that holds them, and which rows no deletion vector hides."""
    count = draw(st.integers(1, 4))
    partition = {name: draw(st.sampled_from([*POOLS[name], None])) for name in PARTITIONED}
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        row = {name: draw(st.sampled_from([*pool, None])) for name, pool in POOLS.items() if name not in partition}
        inner = {"u": row.pop("st.u"), "v": row.pop("st.v")}
        rows.append({**partition, **row, "st": draw(st.sampled_from([inner, None]))})
    table = pa.Table.from_pylist(rows, schema=schema_to_arrow(SCHEMA))
    writer: Callable[[pa.Table], str] = draw(st.sampled_from([own_stats, foreign_stats]))
    text = json.dumps(without(json.loads(writer(table)), draw(st.sets(st.sampled_from(sorted(POOLS)), max_size=3))))
    kinds = {name: field.type for name in PARTITIONED if (field := SCHEMA.field(name))}
    values = {name: partition_value(value, kinds[name]) for name, value in partition.items()}
    alive = draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any))
    add = AddFile(path="f", size=1, modification_time=1, data_change=True, stats=text, partition_values=values)
    return table, add, alive


def own_stats(table: pa.Table) -> str:
    return collect_stats(table.drop_columns(list(PARTITIONED)), SCHEMA)


def foreign_stats(table: pa.Table) -> str:
    """What a careless writer would say: NaN passed over, decimals through doubles, times cut towards 1970."""
    body: dict[str, Any] = {"numRecords": table.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for path, kind in leaves(SCHEMA):
        if path[0] in PARTITIONED:
            continue
        values = [value for row in table.to_pylist() if (value := at(row, path)) is not None]
        place(body["nullCount"], path, table.num_rows - len(values))
        known = [value for value in values if value == value]
        if known and isinstance(kind, PrimitiveType | DecimalType) and kind.name not in {"boolean", "binary"}:
            place(body["minValues"], path, foreign_bound(min(known), kind, cut_minimum))
            place(body["maxValues"], path, foreign_bound(max(known), kind, cut_maximum))
    return json.dumps(body)


def foreign_bound(value: Any, kind: DataType, cut: Callable[[str], str | None]) -> object:
    match value:
        case str():
            return cut(value)
        case Decimal():
            return float(value)
        case float():
            spelled = java_float(value) if kind == PrimitiveType("float") else java_double(value)
            return float(spelled) if math.isfinite(value) else None
        case datetime():
            zone = value.tzinfo
            micros = (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            millis = abs(micros) // 1000 * (1 if micros >= 0 else -1)
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
            return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if zone else "")
        case date():
            return value.isoformat()
        case _:
            return value


def at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def place(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if value is not None:
        tree[path[-1]] = value


def without(body: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Statistics that lack these columns here and there."""
    for position, name in enumerate(sorted(names)):
        for part in ("nullCount", "maxValues", "minValues")[: position + 1]:
            body[part].get("st", {}).pop(name.removeprefix("st."), None)
            body[part].pop(name, None)
    return body
