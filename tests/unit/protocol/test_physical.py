"""Rows under physical names and ids, and back from whatever a file has."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.protocol.arrow import schema_from_arrow, schema_to_arrow
from deltasql.protocol.column_mapping import ID, PHYSICAL_NAME, all_fields, map_fields
from deltasql.protocol.physical import from_physical, has_ids, locate, to_physical
from deltasql.protocol.schema import StructField, StructType

pytestmark = pytest.mark.unit

INNER = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("s", INNER),
        ("l", pa.list_(pa.field("element", INNER))),
        ("m", pa.map_(pa.string(), pa.field("value", INNER))),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {"a": 1, "s": {"x": 1, "y": "p"}, "l": [{"x": 2, "y": None}, None], "m": [("k", {"x": 3, "y": "q"})]},
        {"a": None, "s": None, "l": None, "m": None},
        {"a": 3, "s": {"x": None, "y": "r"}, "l": [], "m": [("n", None)]},
    ],
    schema=SCHEMA,
)


def mapped(schema: StructType) -> StructType:
    """Every field gets the next id, and a physical name that says which."""
    count = iter(range(1, 100))

    def marked(field: StructField) -> StructField:
        number = next(count)
        return StructField(field.name, field.type, field.nullable, {ID: number, PHYSICAL_NAME: f"c{number}"})

    return map_fields(schema, marked)


MAPPED = mapped(schema_from_arrow(SCHEMA))


def read_back(data: pa.Table, schema: StructType, *, by_id: bool = False) -> pa.Table:
    target = schema_to_arrow(schema)
    columns = []
    for field, goal in zip(schema.fields, target, strict=True):
        place = locate(list(data.schema), field, by_id=by_id)
        columns.append(
            pa.nulls(data.num_rows, goal.type)
            if place is None
            else from_physical(data.column(place), field, goal.type, by_id=by_id)
        )
    return pa.Table.from_arrays(columns, schema=target)


def in_parquet(data: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(data, file)
    return pq.ParquetFile(pa.BufferReader(file.getvalue())).read()


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(1), ROWS.slice(0, 0), pa.concat_tables([ROWS, ROWS.slice(2)])])
def test_rows_come_back_by_name_and_by_id(rows: pa.Table, by_id: bool) -> None:
    file = in_parquet(to_physical(rows, MAPPED))
    assert file.schema.names == ["c1", "c2", "c5", "c8"]
    assert has_ids(file.schema)
    assert read_back(file, MAPPED, by_id=by_id).equals(rows)


def test_every_field_has_its_id_in_the_file() -> None:
    file = io.BytesIO()
    pq.write_table(to_physical(ROWS, MAPPED), file)
    text = str(pq.ParquetFile(pa.BufferReader(file.getvalue())).schema)
    for field in all_fields(MAPPED):
        number = field.metadata[ID]
        assert f"field_id={number} c{number}" in text


def test_renamed_dropped_exchanged_and_new_fields_are_found() -> None:
    file = in_parquet(to_physical(ROWS, MAPPED))
    names = {"a": "b", "x": "y", "y": "x"}

    def renamed(field: StructField) -> StructField:
        return StructField(names.get(field.name, field.name), field.type, field.nullable, field.metadata)

    schema = map_fields(MAPPED, renamed)
    found = read_back(file, StructType(tuple(field for field in schema.fields if field.name != "m"))).to_pylist()
    assert found[0] == {"b": 1, "s": {"y": 1, "x": "p"}, "l": [{"y": 2, "x": None}, None]}
    assert found[1] == {"b": None, "s": None, "l": None}
    grown = StructType((StructField("s", schema_from_arrow(pa.schema([("s", INNER)])).fields[0].type, True, {}),))
    other = pa.schema([("s", pa.struct([("z", pa.bool_()), ("y", pa.string())]))])
    plain = pa.Table.from_pylist([{"s": {"z": True, "y": "v"}}, {"s": None}], schema=other)
    assert read_back(plain, grown).to_pylist() == [{"s": {"x": None, "y": "v"}}, {"s": None}]


@pytest.mark.parametrize("by_id", [False, True])
def test_fields_that_exchanged_their_names_are_told_apart(by_id: bool) -> None:
    first = schema_from_arrow(pa.schema([("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]))
    rows = pa.Table.from_pylist([{"s": {"x": 1, "y": 2}}], schema=schema_to_arrow(first))
    ids = {"s": 1, "x": 2, "y": 3}
    marked = map_fields(
        first,
        lambda field: StructField(field.name, field.type, True, {ID: ids[field.name], PHYSICAL_NAME: field.name}),
    )
    file = in_parquet(to_physical(rows, marked))
    names = {"x": "y", "y": "x"}
    exchanged = map_fields(
        marked, lambda field: StructField(names.get(field.name, field.name), field.type, True, field.metadata)
    )
    # In the schema's order they look as if nothing had happened.
    swapped = map_fields(
        exchanged,
        lambda field: (
            StructField(field.name, StructType(field.type.fields[::-1]), True, field.metadata)
            if isinstance(field.type, StructType)
            else field
        ),
    )
    assert read_back(file, swapped, by_id=by_id).to_pylist() == [{"s": {"x": 2, "y": 1}}]


def test_by_id_names_do_not_count() -> None:
    schema = pa.schema([pa.field("whatever", pa.int32(), metadata={"PARQUET:field_id": "1"}), ("c2", INNER)])
    file = pa.Table.from_pylist([{"whatever": 4, "c2": {"x": 1}}], schema=schema)
    assert read_back(file, MAPPED, by_id=True).to_pylist() == [{"a": 4, "s": None, "l": None, "m": None}]
    assert read_back(file, MAPPED).to_pylist()[0]["a"] is None


@pytest.mark.parametrize(
    ("narrow", "value", "wide", "found"),
    [
        (pa.int8(), -7, pa.int64(), -7),
        (pa.int32(), 2**31 - 1, pa.float64(), float(2**31 - 1)),
        (pa.int32(), -(2**31), pa.decimal128(12, 2), Decimal(-(2**31))),
        (pa.int64(), 2**63 - 1, pa.decimal128(20, 0), Decimal(2**63 - 1)),
        (pa.float32(), 0.5, pa.float64(), 0.5),
        (pa.decimal128(4, 2), Decimal("12.34"), pa.decimal128(10, 4), Decimal("12.3400")),
        (pa.date32(), date(1500, 2, 28), pa.timestamp("us"), datetime.fromisoformat("1500-02-28")),
    ],
)
def test_narrower_values_of_older_files_become_wide_even_inside(
    narrow: pa.DataType, value: object, wide: pa.DataType, found: object
) -> None:
    def shape(kind: pa.DataType) -> pa.Schema:
        return pa.schema([("v", kind), ("l", pa.list_(pa.struct([("v", kind)]))), ("m", pa.map_(kind, kind))])

    rows = [{"v": value, "l": [{"v": value}, None], "m": [(value, None)]}, {"v": None, "l": None, "m": None}]
    file = in_parquet(pa.Table.from_pylist(rows, schema=shape(narrow)))
    wider = read_back(file, schema_from_arrow(shape(wide)))
    assert wider.to_pylist() == [
        {"v": found, "l": [{"v": found}, None], "m": [(found, None)]},
        {"v": None, "l": None, "m": None},
    ]


def test_a_value_that_may_not_be_null_stays_below_a_null_struct() -> None:
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = schema_from_arrow(pa.schema([("s", kind)]))
    hidden = pa.StructArray.from_arrays([pa.array([1, 0])], fields=list(kind), mask=pa.array([False, True]))
    narrow = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    column = pa.chunked_array([hidden.cast(narrow)])
    found = from_physical(column, schema.fields[0], schema_to_arrow(schema).field(0).type, by_id=False)
    assert found.to_pylist() == [{"x": 1}, None]
    # Parquet refuses a null where the schema allows none.
    assert in_parquet(pa.table({"s": found}, schema=schema_to_arrow(schema))).num_rows == 2
