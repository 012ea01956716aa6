"""Partition values: as text, back from text, as directories, and how rows are divided by them.

The text is what Delta Spark writes. The empty string means null in Delta, so an empty string or binary value becomes
null; that is the one value that does not come back.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import SchemaError
from deltasql.protocol.numbers import java_double, java_float, single
from deltasql.protocol.schema import DataType, DecimalType, PrimitiveType, StructField, StructType

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

# Arrow cannot gather more than 2 GB of text at once; data past this size is gathered batch by batch.
GATHER_BYTES = 1 << 30

# Spark's own list, and NUL, which no file system takes.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def partition_value(value: object, type: DataType) -> str | None:
    """A value as Delta writes it in `partitionValues`; `SchemaError` where the type cannot hold it."""
    codec = _codec(type)
    if value is None:
        return None
    try:
        # Exactly this class: True is no integer, and a point in time is no date. Delta reads the empty text as null.
        if value.__class__ is codec.python:
            return codec.write(value) or None
    except (ValueError, ArithmeticError):
        pass
    raise _misfit(value, type, codec)


def parse_partition_value(text: str | None, type: DataType) -> object:
    """The value behind the text. A timestamp that names no zone is taken as UTC."""
    codec = _codec(type)
    if not text:
        return None
    try:
        return codec.read(text)
    except (ValueError, ArithmeticError) as error:
        raise _misfit(text, type, codec) from error


def partition_path(values: Mapping[str, str | None], columns: Sequence[str]) -> str:
    """The directory of a partition as it is stored: Hive-escaped, not URI-encoded. Empty without columns."""
    return "/".join(f"{_escape(name)}={_escape(values[name] or NULL_DIRECTORY)}" for name in columns)


def directory_values(values: Mapping[str, str | None], schema: StructType) -> dict[str, str | None]:
    """The values as Spark spells them in directories: an instant as a time without a zone, here always in UTC.

    Only the log counts, but Polars reads directories, and wants one spelling in all of a table's.
    """
    return {
        name: _write_timestamp_ntz(_read_timestamp(text).replace(tzinfo=None))
        if text and _field(schema, name).type == PrimitiveType("timestamp")
        else text
        for name, text in values.items()
    }


def split_by_partition(
    data: pa.Table, schema: StructType, columns: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each partition, without the partition columns; partitions ordered by their values, nulls first.

    Rows belong together where their partition values are the same text: null and the empty string are one partition
    and so are all NaN; 0.0 and -0.0 are two, as Delta Spark writes them. The order of rows within one is kept.
    """
    fields = [_field(schema, name) for name in columns]
    names = [field.name for field in fields]
    if not data.num_rows:
        return
    # One number a row for the columns so far, dense after each, so that the multiplication cannot overflow.
    groups = pa.repeat(pa.scalar(0, pa.int64()), data.num_rows)
    values: list[tuple[str | None, ...]] = [()]
    for field in fields:
        codes, texts = _encode(data.column(field.name), field)
        combined = pc.add(pc.multiply(groups, len(texts)), codes).dictionary_encode()
        groups = combined.indices.cast(pa.int64())
        pairs = [divmod(number, len(texts)) for number in combined.dictionary.to_pylist()]
        values = [(*values[group], texts[code]) for group, code in pairs]
    order = sorted(range(len(values)), key=lambda group: [(text is not None, text or "") for text in values[group]])
    ranks = pa.array(sorted(range(len(order)), key=order.__getitem__), pa.int64()).take(groups)
    parts = _divide(data.drop_columns(names), ranks, len(order))
    for group, part in zip(order, parts, strict=True):
        yield dict(zip(names, values[group], strict=True)), part


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _misfit(value: object, kind: DataType, codec: _Codec) -> SchemaError:
    name = getattr(kind, "name", "")
    return SchemaError(
        f"{value!r} is not a partition value of type {name}",
        hint=f"{name} holds {codec.holds}",
        field="partitionValues",
    )


# -- rows -----------------------------------------------------------------------------------------------------------


def _field(schema: StructType, name: str) -> StructField:
    field = schema.field(name)
    if field is None:
        hint = f"use one of {', '.join(schema.names)}"
        raise SchemaError(f"the partition column {name} is not in the schema", hint=hint, field=name)
    return field


def _encode(column: pa.ChunkedArray, field: StructField) -> tuple[pa.Array, list[str | None]]:
    """A column as one number a row, and the partition text that each number stands for."""
    kind = column.type
    # Floats are told apart by their bits: 0.0 and -0.0 compare equal, and their texts differ.
    if bits := {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(kind):
        column = pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    chunks = column.dictionary_encode(null_encoding="encode").chunks
    distinct = chunks[0].dictionary.view(pa.timestamp("us") if pa.types.is_timestamp(kind) else kind)
    try:
        found = distinct.to_pylist()
    except (OverflowError, ValueError) as error:
        raise SchemaError(
            f"column {field.name} has a partition value that cannot be written: {error}",
            hint="dates and timestamps of partitions lie in the years 1 to 9999",
            field=field.name,
        ) from error
    if field.type == PrimitiveType("timestamp"):
        found = [value and value.replace(tzinfo=UTC) for value in found]
    texts = [partition_value(value, field.type) for value in found]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    renumber = pa.array([numbers[text] for text in texts], pa.int64())
    return renumber.take(pa.concat_arrays([chunk.indices for chunk in chunks])), list(numbers)


def _divide(data: pa.Table, ranks: pa.Array, count: int) -> list[pa.Table]:
    """The rows of each rank from 0 to `count` - 1; every one has some."""
    if count == 1:
        return [data]
    blocks = [data] if data.nbytes < GATHER_BYTES else [pa.Table.from_batches([batch]) for batch in data.to_batches()]
    pieces: list[list[pa.Table]] = [[] for _ in range(count)]
    seen = 0
    for block in blocks:
        here = ranks.slice(seen, block.num_rows)
        seen += block.num_rows
        gathered = block.take(pc.array_sort_indices(here))
        start = 0
        for rank, rows in sorted((item["values"], item["counts"]) for item in here.value_counts().to_pylist()):
            pieces[rank].append(gathered.slice(start, rows))
            start += rows
    return [pa.concat_tables(piece) for piece in pieces]


# -- one way of writing and reading for each type; a value that does not fit raises ValueError or ArithmeticError -----


class _Codec(NamedTuple):
    python: type
    holds: str
    write: Callable[[Any], str]
    read: Callable[[str], object]


def _codec(kind: DataType) -> _Codec:
    if isinstance(kind, DecimalType):
        holds = f"numbers of at most {kind.precision} digits, {kind.scale} of them after the point"
        return _Codec(
            Decimal, holds, lambda value: f"{_decimal(value, kind):f}", lambda text: _read_decimal(text, kind)
        )
    codec = _CODECS.get(kind.name) if isinstance(kind, PrimitiveType) else None
    if codec is None:
        name = getattr(kind, "name", "of a nested type")
        raise SchemaError(
            f"a column that is {name} cannot be a partition column",
            hint="partition by strings, numbers, booleans, dates, timestamps or binary",
            field="partitionColumns",
        )
    return codec


_DIGITS = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(_DIGITS)
_FLOAT = re.compile(rf"{_DIGITS}|NaN|[+-]?Infinity")
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"([ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(\.(?P<fraction>[0-9]{1,6})0*)?)?"
    r"(?P<zone>Z|UTC|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2}))?"
)


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _integer(bits: int) -> _Codec:
    def fit(value: int) -> int:
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise ValueError(value)
        return value

    return _Codec(
        int,
        f"whole numbers of {bits} bits",
        lambda value: str(fit(value)),
        lambda text: fit(int(_matched(_INTEGER, text)[0])),
    )


def _decimal(value: Decimal, kind: DecimalType) -> Decimal:
    if not value.is_finite():
        raise ValueError(value)
    exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    fitted = value.quantize(Decimal(1).scaleb(-kind.scale), context=exact)
    return fitted or fitted.copy_abs()


def _read_decimal(text: str, kind: DecimalType) -> Decimal:
    return _decimal(Decimal(_matched(_DECIMAL, text)[0]), kind)


def _read_boolean(text: str) -> bool:
    return {"true": True, "false": False}[_matched(re.compile("true|false"), text.lower())[0]]


def _read_date(text: str) -> date:
    year, month, day = _matched(_DATE, text).groups()
    return date(int(year), int(month), int(day))


def _write_timestamp(value: datetime) -> str:
    if value.utcoffset() is None:
        raise ValueError(value)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _write_timestamp_ntz(value: datetime) -> str:
    if value.tzinfo is not None:
        raise ValueError(value)
    text = value.isoformat(sep=" ")
    return text.rstrip("0") if value.microsecond else text


def _read_timestamp(text: str) -> datetime:
    match = _matched(_TIMESTAMP, text)
    day = _read_date(match["date"])
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    microsecond = int((match["fraction"] or "").ljust(6, "0"))
    offset = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
    instant = datetime(day.year, day.month, day.day, hour, minute, second, microsecond, UTC)
    return instant + offset if match["sign"] == "-" else instant - offset


def _read_timestamp_ntz(text: str) -> datetime:
    if _matched(_TIMESTAMP, text)["zone"]:
        raise ValueError(text)
    return _read_timestamp(text).replace(tzinfo=None)


_CODECS = {
    "string": _Codec(str, "text", str, str),
    "binary": _Codec(bytes, "bytes, which must be UTF-8 text to come back unchanged", bytes.decode, str.encode),
    "boolean": _Codec(bool, "true or false", lambda value: str(value).lower(), _read_boolean),
    "byte": _integer(8),
    "short": _integer(16),
    "integer": _integer(32),
    "long": _integer(64),
    "float": _Codec(
        float,
        "32-bit numbers such as 1.0E10",
        lambda value: java_float(single(value)),
        lambda text: single(float(_matched(_FLOAT, text)[0])),
    ),
    "double": _Codec(float, "numbers such as 1.0E10", java_double, lambda text: float(_matched(_FLOAT, text)[0])),
    "date": _Codec(date, "dates such as 2024-01-31, years 1 to 9999", date.isoformat, _read_date),
    "timestamp": _Codec(
        datetime,
        "instants, times with a zone, such as 2024-01-31T10:00:00.000000Z",
        _write_timestamp,
        _read_timestamp,
    ),
    "timestamp_ntz": _Codec(
        datetime,
        "times without a zone, such as 2024-01-31 10:00:00",
        _write_timestamp_ntz,
        _read_timestamp_ntz,
    ),
}
