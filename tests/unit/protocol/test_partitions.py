"""Partition values. The texts are those that Delta Spark 4.4 wrote for the same values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import SchemaError
from deltasql.protocol import partitions
from deltasql.protocol.partitions import (
    directory_values,
    parse_partition_value,
    partition_path,
    partition_value,
    split_by_partition,
)
from deltasql.protocol.schema import ArrayType, DataType, DecimalType, PrimitiveType, StructField, StructType

pytestmark = pytest.mark.unit


def primitive(name: str) -> DataType:
    return PrimitiveType(name)


STRING, BINARY, BOOLEAN, DATE = map(primitive, ("string", "binary", "boolean", "date"))
BYTE, INTEGER, LONG, FLOAT, DOUBLE = map(primitive, ("byte", "integer", "long", "float", "double"))
TIMESTAMP, TIMESTAMP_NTZ = primitive("timestamp"), primitive("timestamp_ntz")


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        ("a b/c:d%e\"f'g#0\x01", STRING, "a b/c:d%e\"f'g#0\x01"),
        ("__HIVE_DEFAULT_PARTITION__", STRING, "__HIVE_DEFAULT_PARTITION__"),
        (True, BOOLEAN, "true"),
        (False, BOOLEAN, "false"),
        (-3, BYTE, "-3"),
        (2**63 - 1, LONG, "9223372036854775807"),
        (1.0, DOUBLE, "1.0"),
        (1e7, DOUBLE, "1.0E7"),
        (9.99e-4, DOUBLE, "9.99E-4"),
        (-0.0, DOUBLE, "-0.0"),
        (math.nan, DOUBLE, "NaN"),
        (-math.inf, DOUBLE, "-Infinity"),
        (1.1, FLOAT, "1.1"),
        (1e10, FLOAT, "1.0E10"),
        (Decimal("1.5"), DecimalType(10, 2), "1.50"),
        (Decimal(1000), DecimalType(10, 0), "1000"),
        (Decimal("-0.0000001"), DecimalType(10, 7), "-0.0000001"),
        (Decimal("1E-20"), DecimalType(38, 20), "0.00000000000000000001"),
        (Decimal("-0"), DecimalType(38, 10), "0.0000000000"),
        (date(2024, 2, 29), DATE, "2024-02-29"),
        (date(999, 12, 31), DATE, "0999-12-31"),
        (datetime(2024, 1, 1, 10, 0, 0, 123999, UTC), TIMESTAMP, "2024-01-01T10:00:00.123999Z"),
        (datetime(2024, 1, 1, 10, tzinfo=UTC), TIMESTAMP, "2024-01-01T10:00:00.000000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), TIMESTAMP, "0001-01-01T00:00:00.000000Z"),
        (datetime(2024, 1, 1, 10), TIMESTAMP_NTZ, "2024-01-01 10:00:00"),  # noqa: DTZ001
        (datetime(2024, 1, 1, 10, 0, 0, 500000), TIMESTAMP_NTZ, "2024-01-01 10:00:00.5"),  # noqa: DTZ001
        (datetime(999, 1, 1, 0, 0, 0, 123999), TIMESTAMP_NTZ, "0999-01-01 00:00:00.123999"),  # noqa: DTZ001
        (b"\x01", BINARY, "\x01"),
        ("é".encode(), BINARY, "é"),
    ],
)
def test_a_value_is_written_as_delta_spark_writes_it(value: object, type: DataType, text: str) -> None:
    assert partition_value(value, type) == text
    read = parse_partition_value(text, type)
    assert partition_value(read, type) == text
    assert type in (FLOAT, DOUBLE) or read == value


@pytest.mark.parametrize(("value", "type"), [(None, LONG), ("", STRING), (b"", BINARY)])
def test_null_and_empty_are_null(value: object, type: DataType) -> None:
    assert partition_value(value, type) is None


@pytest.mark.parametrize("text", [None, ""])
@pytest.mark.parametrize("type", [STRING, LONG, DATE, TIMESTAMP, BINARY, DecimalType(3, 1)])
def test_no_text_is_null(text: str | None, type: DataType) -> None:
    assert parse_partition_value(text, type) is None


def test_another_zone_is_turned_into_utc() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert partition_value(noon, TIMESTAMP) == "2024-01-01T10:00:00.000000Z"


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (128, BYTE),
        (2**63, LONG),
        (True, INTEGER),
        (1, BOOLEAN),
        ("1", LONG),
        (1, DOUBLE),
        (1e39, FLOAT),
        (Decimal("1.005"), DecimalType(10, 2)),
        (Decimal(1000), DecimalType(3, 0)),
        (Decimal("NaN"), DecimalType(3, 0)),
        (Decimal("Infinity"), DecimalType(3, 0)),
        (datetime(2024, 1, 1, tzinfo=UTC), DATE),
        (date(2024, 1, 1), TIMESTAMP),
        (datetime(2024, 1, 1), TIMESTAMP),  # noqa: DTZ001
        (datetime(2024, 1, 1, tzinfo=UTC), TIMESTAMP_NTZ),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), TIMESTAMP),
        # Readers would take the replacement character for the value.
        (b"\xff", BINARY),
    ],
)
def test_a_value_that_the_type_does_not_hold_is_refused(value: object, type: DataType) -> None:
    with pytest.raises(SchemaError) as caught:
        partition_value(value, type)
    assert repr(value) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("2024-01-01 10:00:00", TIMESTAMP, datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01 10:00:00.123", TIMESTAMP, datetime(2024, 1, 1, 10, 0, 0, 123000, UTC)),
        ("2024-01-01T10:00:00Z", TIMESTAMP, datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01T10:00:00.5+02:00", TIMESTAMP, datetime(2024, 1, 1, 8, 0, 0, 500000, UTC)),
        ("2024-01-01T10:00:00-0230", TIMESTAMP, datetime(2024, 1, 1, 12, 30, tzinfo=UTC)),
        ("2024-01-01 10:00:00.123456000", TIMESTAMP, datetime(2024, 1, 1, 10, 0, 0, 123456, UTC)),
        ("2024-01-01", TIMESTAMP, datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01T10:00:00.000000", TIMESTAMP_NTZ, datetime(2024, 1, 1, 10)),  # noqa: DTZ001
        ("2024-1-9", DATE, date(2024, 1, 9)),
        ("TRUE", BOOLEAN, True),
        ("+5", LONG, 5),
        ("1e3", DOUBLE, 1000.0),
        ("1", DOUBLE, 1.0),
        ("1.5E+1", DecimalType(4, 2), Decimal("15.00")),
    ],
)
def test_older_forms_are_read(text: str, type: DataType, value: object) -> None:
    assert parse_partition_value(text, type) == value


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("x", LONG),
        ("1_000", LONG),
        ("١", LONG),
        (" 1", LONG),
        ("128", BYTE),
        ("9" * 5000, LONG),
        ("yes", BOOLEAN),
        ("nan", DOUBLE),
        ("1.0f", DOUBLE),
        ("1e39", FLOAT),
        ("1.005", DecimalType(10, 2)),
        ("NaN", DecimalType(10, 2)),
        ("2024-02-30", DATE),
        ("24-01-01", DATE),
        ("+10000-01-01", DATE),
        ("2024-01-01 25:00:00", TIMESTAMP),
        ("2024-01-01 10:00", TIMESTAMP),
        ("2024-01-01 10:00:00.1234567", TIMESTAMP),
        ("2024-01-01 10:00:00 Mars/Phobos", TIMESTAMP),
        ("0001-01-01T00:00:00+01:00", TIMESTAMP),
        ("2024-01-01 10:00:00Z", TIMESTAMP_NTZ),
        ("\ud800", BINARY),
    ],
)
def test_malformed_text_is_refused(text: str, type: DataType) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_partition_value(text, type)
    assert caught.value.field == "partitionValues"


@pytest.mark.parametrize("type", [ArrayType(LONG), StructType(), PrimitiveType("variant"), PrimitiveType("void")])
def test_a_type_that_cannot_partition_is_refused(type: DataType) -> None:
    for call in (lambda: partition_value(None, type), lambda: parse_partition_value(None, type)):
        with pytest.raises(SchemaError) as caught:
            call()
        assert caught.value.field == "partitionColumns"


VALUES = st.one_of(
    st.tuples(st.text(min_size=1), st.just(STRING)),
    st.tuples(st.text(min_size=1).map(str.encode), st.just(BINARY)),
    st.tuples(st.booleans(), st.just(BOOLEAN)),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.just(LONG)),
    st.tuples(st.floats(allow_nan=False), st.just(DOUBLE)),
    st.tuples(st.floats(allow_nan=False, width=32), st.just(FLOAT)),
    st.tuples(st.decimals(-(10**30), 10**30, places=7), st.just(DecimalType(38, 7))),
    st.tuples(st.dates(), st.just(DATE)),
    st.tuples(st.datetimes(timezones=st.just(UTC)), st.just(TIMESTAMP)),
    st.tuples(st.datetimes(), st.just(TIMESTAMP_NTZ)),
)


@given(VALUES)
def test_a_value_comes_back(pair: tuple[object, DataType]) -> None:
    value, kind = pair
    assert parse_partition_value(partition_value(value, kind), kind) == value


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("a b", "p=a b"),
        ("/a", "p=%2Fa"),
        (":x:", "p=%3Ax%3A"),
        ("é ü😀", "p=é ü😀"),
        ("..", "p=.."),
        ("a{}[]^|<>`~!@$&()_+-;,", "p=a%7B}%5B%5D%5E|<>`~!@$&()_+-;,"),
        ("a'\"b?*=%#\\", "p=a%27%22b%3F%2A%3D%25%23%5C"),
        ("\tx\n\x7f\x01", "p=%09x%0A%7F%01"),
        ("\0", "p=%00"),
        (None, "p=__HIVE_DEFAULT_PARTITION__"),
        ("", "p=__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_directory_is_escaped_as_spark_does_it(value: str | None, folder: str) -> None:
    assert partition_path({"p": value}, ["p"]) == folder


def test_directories_follow_the_order_of_the_columns() -> None:
    assert partition_path({"b": "2", "a:x": "1"}, ["a:x", "b"]) == "a%3Ax=1/b=2"
    assert partition_path({}, []) == ""


def test_an_instant_in_a_directory_is_spelled_as_spark_does_it() -> None:
    schema = StructType((StructField("at", TIMESTAMP), StructField("local", TIMESTAMP_NTZ), StructField("s", STRING)))
    instant = "2024-03-10T02:30:00.000000Z"
    assert directory_values({"at": instant, "local": "2024-03-10 02:30:00", "s": instant}, schema) == {
        "at": "2024-03-10 02:30:00",
        "local": "2024-03-10 02:30:00",
        "s": instant,
    }
    assert directory_values({"at": "0001-01-01T00:00:00.120000Z"}, schema) == {"at": "0001-01-01 00:00:00.12"}
    assert directory_values({"at": None}, schema) == {"at": None}


# -- rows ----------------------------------------------------------------------------------------------------------


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def split(data: pa.Table, schema: StructType, columns: list[str]) -> list[tuple[dict[str, str | None], list[object]]]:
    return [(values, rows.to_pylist()) for values, rows in split_by_partition(data, schema, columns)]


def test_rows_are_divided_by_their_values() -> None:
    data = pa.table({"id": [1, 2, 3, 4, 5], "p": ["b", "a", "b", None, ""], "q": [1, 1, 2, 1, 1]})
    assert split(data, struct(id=LONG, p=STRING, q=LONG), ["q", "p"]) == [
        ({"q": "1", "p": None}, [{"id": 4}, {"id": 5}]),
        ({"q": "1", "p": "a"}, [{"id": 2}]),
        ({"q": "1", "p": "b"}, [{"id": 1}]),
        ({"q": "2", "p": "b"}, [{"id": 3}]),
    ]


def test_floats_are_divided_by_their_text() -> None:
    data = pa.table({"id": [1, 2, 3, 4, 5], "p": [0.0, -0.0, math.nan, None, -math.nan]})
    assert split(data, struct(id=LONG, p=DOUBLE), ["p"]) == [
        ({"p": None}, [{"id": 4}]),
        ({"p": "-0.0"}, [{"id": 2}]),
        ({"p": "0.0"}, [{"id": 1}]),
        ({"p": "NaN"}, [{"id": 3}, {"id": 5}]),
    ]


def test_every_type_of_partition_column() -> None:
    columns: dict[str, tuple[DataType, pa.DataType, object, str]] = {
        "b": (BOOLEAN, pa.bool_(), True, "true"),
        "i": (INTEGER, pa.int32(), 5, "5"),
        "f": (FLOAT, pa.float32(), 1.5, "1.5"),
        "n": (DecimalType(5, 2), pa.decimal128(5, 2), Decimal("1.50"), "1.50"),
        "d": (DATE, pa.date32(), date(2024, 1, 1), "2024-01-01"),
        "t": (TIMESTAMP, pa.timestamp("us", "UTC"), datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00.000000Z"),
        "z": (TIMESTAMP_NTZ, pa.timestamp("us"), datetime(2024, 1, 1), "2024-01-01 00:00:00"),  # noqa: DTZ001
        "x": (BINARY, pa.binary(), b"q", "q"),
    }
    data = pa.table(
        {"id": [1, 2]} | {name: pa.array([value, None], kind) for name, (_, kind, value, _) in columns.items()}
    )
    schema = struct(id=LONG, **{name: kind for name, (kind, _, _, _) in columns.items()})
    assert split(data, schema, list(columns)) == [
        (dict.fromkeys(columns), [{"id": 2}]),
        ({name: text for name, (_, _, _, text) in columns.items()}, [{"id": 1}]),
    ]


def test_column_names_ignore_case_and_come_out_as_the_schema_has_them() -> None:
    data = pa.table({"id": [1], "Day": ["x"]})
    assert split(data, struct(id=LONG, Day=STRING), ["day"]) == [({"Day": "x"}, [{"id": 1}])]


def test_no_rows_make_no_partition() -> None:
    schema = struct(id=LONG, p=STRING)
    assert split(pa.table({"id": pa.array([], pa.int64()), "p": pa.array([], pa.string())}), schema, ["p"]) == []


def test_a_table_without_partitions_is_one() -> None:
    data = pa.table({"id": [1, 2]})
    [(values, rows)] = split_by_partition(data, struct(id=LONG), [])
    assert values == {}
    assert rows == data


def test_an_unknown_partition_column_is_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        list(split_by_partition(pa.table({"id": [1]}), struct(id=LONG), ["day"]))
    assert caught.value.field == "day"


def test_a_date_that_cannot_be_written_is_refused() -> None:
    data = pa.table({"id": [1], "d": pa.array([4_000_000], pa.int32()).cast(pa.date32())})
    with pytest.raises(SchemaError) as caught:
        list(split_by_partition(data, struct(id=LONG, d=DATE), ["d"]))
    assert caught.value.field == "d"


ROWS = st.lists(
    st.tuples(st.sampled_from([None, "", "a", "b", "é"]), st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])),
    max_size=30,
)


@settings(max_examples=50)
@given(chunks=st.lists(ROWS, min_size=1, max_size=3), gather=st.sampled_from([0, 1 << 30]))
def test_every_row_lands_in_its_partition_once(
    chunks: list[list[tuple[str | None, float | None]]], gather: int
) -> None:
    start, batches = 0, list[pa.RecordBatch]()
    for chunk in chunks:
        p, q = [row[0] for row in chunk], [row[1] for row in chunk]
        ids = range(start, start + len(chunk))
        start += len(chunk)
        schema = pa.schema([("p", pa.string()), ("q", pa.float64()), ("id", pa.int64())])
        batches.append(pa.record_batch([p, q, ids], schema=schema))
    table = pa.Table.from_batches(batches)
    rows = [row for chunk in chunks for row in chunk]
    expected: dict[tuple[str | None, str | None], list[int]] = {}
    for number, (p, q) in enumerate(rows):
        expected.setdefault((partition_value(p, STRING), partition_value(q, DOUBLE)), []).append(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "GATHER_BYTES", gather)
        found = list(split_by_partition(table, struct(p=STRING, q=DOUBLE, id=LONG), ["p", "q"]))
    assert {(values["p"], values["q"]): part["id"].to_pylist() for values, part in found} == expected
    keys = [[(text is not None, text or "") for text in values.values()] for values, _ in found]
    assert keys == sorted(keys)
    assert all(part.column_names == ["id"] for _, part in found)
