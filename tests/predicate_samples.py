"""Schemas that the tests of predicates share."""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.protocol.actions import AddFile
from deltasql.protocol.predicate import parse
from deltasql.protocol.schema import ArrayType, DataType, DecimalType, PrimitiveType, StructField, StructType
from deltasql.protocol.skipping import FileFacts, facts_from, matches_all, may_match


def struct(**fields: str | DataType) -> StructType:
    return StructType(
        tuple(
            StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind) for name, kind in fields.items()
        )
    )


# Every type, and names that need care.
SCHEMA = StructType(
    (
        *struct(
            id="long",
            tiny="byte",
            Name="string",
            d="date",
            ts="timestamp",
            ntz="timestamp_ntz",
            x="double",
            f="float",
            dec=DecimalType(10, 2),
            big=DecimalType(38, 0),
            b="boolean",
            bin="binary",
            st=struct(u="long", inner=struct(V="string")),
            arr=ArrayType(PrimitiveType("long")),
            date="date",
            v="variant",
        ).fields,
        StructField("a.b", PrimitiveType("long")),
        StructField("odd`name", PrimitiveType("long")),
        StructField("select list", PrimitiveType("long")),
        StructField("and", PrimitiveType("long")),
        StructField("collated", PrimitiveType("string"), True, {"__COLLATIONS": {"collated": "ICU.UNICODE_CI"}}),
    )
)

# A partitioned table, whose files have statistics.
FILE_SCHEMA = struct(
    p="string",
    day="date",
    w="float",
    at="timestamp",
    id="long",
    s="string",
    x="double",
    f="float",
    d="date",
    ts="timestamp",
    ntz="timestamp_ntz",
    dec=DecimalType(20, 2),
    money=DecimalType(10, 2),
    b="boolean",
    bin="binary",
    st=struct(u="long", v="string"),
)
PARTITIONED = ("p", "day", "w", "at")


def outcome(text: str, facts: FileFacts) -> str:
    """`none`, `all` or `some`: what the file is taken to hold of matches."""
    predicate = parse(text, FILE_SCHEMA)
    may, surely = may_match(predicate, facts), matches_all(predicate, facts)
    assert may or not surely
    return "all" if surely else "some" if may else "none"


def facts_of(text: str | None, partition_values: Mapping[str, str | None] | None = None) -> FileFacts:
    add = AddFile(
        path="f",
        size=1,
        modification_time=1,
        data_change=True,
        stats=text,
        partition_values=partition_values or {},
    )
    return facts_from(add, FILE_SCHEMA, PARTITIONED)
