"""Arrow and Delta schemas, and data made to fit a table."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import InvalidInputError, SchemaError
from deltasql.protocol.arrow import as_table, conform, schema_from_arrow, schema_to_arrow
from deltasql.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

pytestmark = pytest.mark.unit

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
PAIRS: list[tuple[str, pa.DataType]] = [
    ("string", pa.string()),
    ("long", pa.int64()),
    ("integer", pa.int32()),
    ("short", pa.int16()),
    ("byte", pa.int8()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("boolean", pa.bool_()),
    ("binary", pa.binary()),
    ("date", pa.date32()),
    ("timestamp", pa.timestamp("us", "UTC")),
    ("timestamp_ntz", pa.timestamp("us")),
]


def one(kind: DataType, *, nullable: bool = True) -> StructType:
    return StructType((StructField("c", kind, nullable),))


# -- schemas -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_each_type_has_its_counterpart(name: str, kind: pa.DataType) -> None:
    for nullable in (True, False):
        arrow = pa.schema([pa.field("c", kind, nullable)])
        delta = one(PrimitiveType(name), nullable=nullable)
        assert schema_to_arrow(delta) == arrow
        assert schema_from_arrow(arrow) == delta


@pytest.mark.parametrize(
    ("kind", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int8(), pa.large_string()), STRING),
        (pa.large_binary(), PrimitiveType("binary")),
        (pa.binary(16), PrimitiveType("binary")),
        (pa.binary_view(), PrimitiveType("binary")),
        (pa.date64(), PrimitiveType("date")),
        (pa.timestamp("ns", "Europe/Berlin"), PrimitiveType("timestamp")),
        (pa.timestamp("s"), PrimitiveType("timestamp_ntz")),
        (pa.decimal128(38, 9), DecimalType(38, 9)),
        (pa.decimal64(10, 2), DecimalType(10, 2)),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
        (pa.list_(pa.int64(), 3), ArrayType(LONG)),
        (pa.list_view(pa.int64()), ArrayType(LONG)),
        (pa.list_(pa.field("x", pa.int64(), False)), ArrayType(LONG, contains_null=False)),
        (pa.map_(pa.string(), pa.field("v", pa.int64(), False)), MapType(STRING, LONG, value_contains_null=False)),
        (pa.struct([pa.field("a", pa.int64(), False)]), StructType((StructField("a", LONG, nullable=False),))),
    ],
)
def test_other_arrow_types_of_the_same_family(kind: pa.DataType, delta: DataType) -> None:
    assert schema_from_arrow(pa.schema([("c", kind)])) == one(delta)


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (pa.uint8(), "int16"),
        (pa.uint16(), "int32"),
        (pa.uint32(), "int64"),
        (pa.uint64(), "decimal128(20, 0)"),
        (pa.float16(), "float32"),
        (pa.null(), "the type the column is meant to have"),
        (pa.time64("us"), "int64 or string"),
        (pa.duration("s"), "int64 or string"),
        (pa.decimal256(50, 5), "decimal128(38, 5)"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "string"),
        (pa.uuid(), "its storage type fixed_size_binary[16]"),
        (pa.month_day_nano_interval(), "string"),
    ],
)
def test_a_type_that_delta_does_not_have_is_refused_with_a_way_out(kind: pa.DataType, instead: str) -> None:
    nested = pa.struct([("a", pa.list_(pa.map_(pa.string(), kind)))])
    for arrow, path in ((kind, "c"), (nested, "c.a.element.value")):
        with pytest.raises(SchemaError) as caught:
            schema_from_arrow(pa.schema([("c", arrow)]))
        assert caught.value.field == path
        assert path in caught.value.message
        assert str(kind) in caught.value.message
        assert instead in (caught.value.hint or "")


def test_a_negative_scale_is_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        schema_from_arrow(pa.schema([("c", pa.decimal128(5, -2))]))
    assert caught.value.field == "c"


def test_endless_nesting_is_refused() -> None:
    kind: pa.DataType = pa.int64()
    for _ in range(500):
        kind = pa.list_(kind)
    with pytest.raises(SchemaError, match="nested more than 100 deep"):
        schema_from_arrow(pa.schema([("c", kind)]))


@pytest.mark.parametrize("name", ["variant", "void", "geometry"])
def test_a_type_without_an_arrow_counterpart_is_refused(name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_to_arrow(one(ArrayType(PrimitiveType(name))))
    assert caught.value.field == "c.element"


PRIMITIVE_TYPES = st.sampled_from([PrimitiveType(name) for name, _ in PAIRS] + [DecimalType(38, 0), DecimalType(5, 5)])


def structs(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    names = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=3)
    fields = st.builds(StructField, names, inner, st.booleans())
    unique = st.lists(fields, min_size=1, max_size=3, unique_by=lambda field: field.name.casefold())
    return unique.map(lambda found: StructType(tuple(found)))


TYPES: st.SearchStrategy[DataType] = st.recursive(
    PRIMITIVE_TYPES,
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(MapType, inner, inner, st.booleans()),
        structs(inner),
    ),
    max_leaves=6,
)


@given(structs(TYPES))
def test_a_schema_comes_back_from_arrow(schema: StructType) -> None:
    assert schema_from_arrow(schema_to_arrow(schema)) == schema


# -- as_table ------------------------------------------------------------------------------------------------------


def test_everything_that_speaks_arrow_is_a_table() -> None:
    table = pa.table({"a": [1, 2]})
    [batch] = table.to_batches()
    assert as_table(table) is table
    assert as_table(batch) == table
    assert as_table([batch, batch]).num_rows == 4
    assert as_table(pa.RecordBatchReader.from_batches(table.schema, [batch])) == table
    assert as_table(pl.DataFrame({"a": [1, 2]})) == table
    assert as_table(duckdb.sql("select unnest([1, 2])::bigint as a")) == table


class OnlyArray:
    """An object that exports one batch, as some libraries do."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


def test_an_object_that_exports_one_batch_is_a_table() -> None:
    assert as_table(OnlyArray(pa.record_batch({"a": [1]}))) == pa.table({"a": [1]})


@pytest.mark.parametrize("data", [None, [], "x", 7, {"a": [1]}, [{"a": 1}], [pa.table({"a": [1]})]])
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        as_table(data)
    assert caught.value.field == "data"


def test_batches_of_different_schemas_are_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        as_table([pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})])
    assert caught.value.field == "data"


# -- conform -------------------------------------------------------------------------------------------------------


def fit(array: pa.Array, kind: DataType, *, nullable: bool = True) -> pa.Table:
    return conform(pa.table({"c": array}), one(kind, nullable=nullable), table="t")


def refusal(data: pa.Table, schema: StructType) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        conform(data, schema, table="sales.orders")
    assert "sales.orders" in caught.value.message
    assert caught.value.hint
    return caught.value


AT = datetime(2024, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "found", "wanted"),
    [
        ([1, None], pa.int32(), "long"),
        ([1, None], pa.int64(), "byte"),
        ([255], pa.uint8(), "short"),
        ([2**32 - 1], pa.uint32(), "long"),
        ([7], pa.uint64(), "integer"),
        ([1.5], pa.float32(), "double"),
        ([1.5], pa.float16(), "float"),
        (["x", None], pa.large_string(), "string"),
        (["x"], pa.string_view(), "string"),
        (["x", "y", None, "x"], pa.dictionary(pa.int8(), pa.string_view()), "string"),
        ([b"ab"], pa.binary(2), "binary"),
        ([b"ab"], pa.large_binary(), "binary"),
        ([b"ab"], pa.binary_view(), "binary"),
        ([date(2024, 1, 1)], pa.date64(), "date"),
        ([AT], pa.timestamp("s", "Europe/Berlin"), "timestamp"),
        ([AT], pa.timestamp("ns", "UTC"), "timestamp"),
        ([AT.replace(tzinfo=None)], pa.timestamp("ns"), "timestamp_ntz"),
        ([None, None], pa.null(), "string"),
        ([True], pa.bool_(), "boolean"),
    ],
)
def test_casts_that_change_no_value(values: list[Any], found: pa.DataType, wanted: str) -> None:
    plain = found.value_type if pa.types.is_dictionary(found) else found
    array = pa.array(values, plain)
    if pa.types.is_dictionary(found):
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["x", "y"], plain))
    result = fit(array, PrimitiveType(wanted))
    assert result.schema == schema_to_arrow(one(PrimitiveType(wanted)))
    assert result["c"].to_pylist() == values
    result.validate(full=True)


@pytest.mark.parametrize("found", [pa.decimal128(5, 2), pa.decimal256(50, 2), pa.decimal32(5, 2)])
def test_decimals_that_fit(found: pa.DataType) -> None:
    result = fit(pa.array([Decimal("1.50")], found), DecimalType(20, 4))
    assert result.schema.field("c").type == pa.decimal128(20, 4)
    assert result["c"].to_pylist() == [Decimal("1.5000")]


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (pa.array([2**40]), PrimitiveType("integer")),
        (pa.array([-1]), PrimitiveType("string")),
        (pa.array([1]), PrimitiveType("double")),
        (pa.array([1]), DecimalType(10, 0)),
        (pa.array([1]), PrimitiveType("boolean")),
        (pa.array([1]), PrimitiveType("timestamp")),
        (pa.array([2**63], pa.uint64()), LONG),
        (pa.array([0.1]), PrimitiveType("float")),
        (pa.array([1.0]), LONG),
        (pa.array(["1"]), LONG),
        (pa.array(["x"]), PrimitiveType("binary")),
        (pa.array([b"x"]), STRING),
        (pa.array([True]), PrimitiveType("byte")),
        (pa.array([date(2024, 1, 1)]), PrimitiveType("timestamp")),
        (pa.array([AT], pa.timestamp("us", "UTC")), PrimitiveType("date")),
        (pa.array([1], pa.timestamp("ns", "UTC")), PrimitiveType("timestamp")),
        (pa.array([2**62], pa.timestamp("s", "UTC")), PrimitiveType("timestamp")),
        (pa.array([Decimal("1.23")]), DecimalType(10, 1)),
        (pa.array([Decimal("123.4")]), DecimalType(3, 1)),
        (pa.array([1], pa.duration("s")), LONG),
        (pa.array([[1]]), LONG),
        (pa.array([1]), ArrayType(LONG)),
        (pa.array([{"a": 1}]), MapType(STRING, LONG)),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), StructType((StructField("a", LONG),))),
    ],
)
def test_other_casts_are_refused(array: pa.Array, wanted: DataType) -> None:
    error = refusal(pa.table({"c": array}), one(wanted))
    assert error.field == "c"
    assert f"is {array.type}" in error.message
    assert f"wants {schema_to_arrow(one(wanted)).field('c').type}" in error.message


def test_a_nested_misfit_is_named_by_its_path() -> None:
    error = refusal(pa.table({"c": [[{"Aa": "x", "b": "y"}]]}), one(ArrayType(AB)))
    assert error.field == "c.element.Aa"
    assert "is string, the table wants int64" in error.message


def test_times_with_and_without_a_zone_are_not_mixed_up() -> None:
    naive, aware = pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC"))
    assert "time zone" in (refusal(pa.table({"c": naive}), one(PrimitiveType("timestamp"))).hint or "")
    assert "local" in (refusal(pa.table({"c": aware}), one(PrimitiveType("timestamp_ntz"))).hint or "")


AB = StructType((StructField("Aa", LONG), StructField("b", STRING)))


def test_columns_are_matched_by_name_in_any_order_and_case() -> None:
    result = conform(pa.table({"B": ["x"], "aA": [1]}), AB, table="t")
    assert result.column_names == ["Aa", "b"]
    assert result.to_pylist() == [{"Aa": 1, "b": "x"}]


def test_a_missing_column_is_refused() -> None:
    error = refusal(pa.table({"b": ["x"]}), AB)
    assert error.field == "Aa"
    assert "as nulls" in (error.hint or "")


def test_an_unknown_column_is_refused() -> None:
    error = refusal(pa.table({"Aa": [1], "b": ["x"], "z": [1]}), AB)
    assert error.field == "z"


def test_a_column_that_stands_twice_is_refused() -> None:
    data = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array(["x"])], names=["aa", "AA", "b"])
    assert refusal(data, AB).field == "AA"


def test_nested_structs_are_matched_by_name_too() -> None:
    schema = one(ArrayType(StructType((StructField("x", LONG), StructField("y", AB)))))
    data = pa.table({"c": [[{"Y": {"B": "q", "AA": 1}, "X": 5}, None], None]})
    result = conform(data, schema, table="t")
    assert result.schema == schema_to_arrow(schema)
    assert result["c"].to_pylist() == [[{"x": 5, "y": {"Aa": 1, "b": "q"}}, None], None]


@pytest.mark.parametrize(
    ("row", "field"),
    [({"b": "x"}, "c.Aa"), ({"Aa": 1, "b": "x", "z": 1}, "c.z"), ({"Aa": 1, "aa": 1, "b": "x"}, "c.aa")],
)
def test_a_struct_with_other_fields_is_refused(row: dict[str, Any], field: str) -> None:
    assert refusal(pa.table({"c": [row]}), one(AB)).field == field


REQUIRED = StructType((StructField("a", LONG, nullable=False), StructField("b", STRING)))


@pytest.mark.parametrize(
    ("kind", "nullable", "values", "path"),
    [
        (LONG, False, pa.array([1, None]), "c"),
        (LONG, False, pa.nulls(1), "c"),
        (REQUIRED, True, pa.array([{"a": None, "b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())])), "c.a"),
        (ArrayType(LONG, contains_null=False), True, pa.array([[1, None]]), "c.element"),
        (
            MapType(STRING, LONG, value_contains_null=False),
            True,
            pa.array([[("k", None)]], pa.map_(pa.string(), pa.int64())),
            "c.value",
        ),
    ],
)
def test_a_null_where_none_is_allowed_is_refused(kind: DataType, nullable: bool, values: pa.Array, path: str) -> None:
    assert refusal(pa.table({"c": values}), one(kind, nullable=nullable)).field == path


def test_a_null_struct_hides_its_required_fields() -> None:
    rows = [None, {"a": 1, "b": None}, None, {"a": 2, "b": "x"}]
    array = pa.array(rows, pa.struct([("a", pa.int64()), ("b", pa.string())]))
    for data in (array, pa.nulls(2)):
        result = fit(data, REQUIRED)
        assert result["c"].to_pylist() == data.to_pylist()
        # The writer of Parquet looks at the values below a null struct.
        buffer = io.BytesIO()
        pq.write_table(result, buffer)
        assert pq.read_table(buffer)["c"].to_pylist() == data.to_pylist()


def test_what_is_hidden_below_a_null_is_not_looked_at() -> None:
    values = pa.array([1, None, 2**40])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values, mask=pa.array([False, True]))
    result = fit(lists, ArrayType(PrimitiveType("byte"), contains_null=False))
    assert result["c"].to_pylist() == [[1], None]
    inner = pa.StructArray.from_arrays([pa.array([1, 2**40])], ["a"], mask=pa.array([False, True]))
    assert fit(inner, StructType((StructField("a", PrimitiveType("byte")),)))["c"].to_pylist() == [{"a": 1}, None]


@pytest.mark.parametrize("kind", [pa.large_list(pa.int32()), pa.list_(pa.int32(), 2), pa.list_view(pa.int32())])
def test_slices_of_lists_keep_their_rows(kind: pa.DataType) -> None:
    rows = [[1, 2], None, [3, 4], [5, 6]]
    assert fit(pa.array(rows, kind).slice(1, 2), ArrayType(LONG))["c"].to_pylist() == rows[1:3]


def test_slices_of_maps_keep_their_rows() -> None:
    rows = [[("a", 1)], None, [("b", None), ("c", 3)], []]
    data = pa.array(rows, pa.map_(pa.large_string(), pa.int8())).slice(1)
    assert fit(data, MapType(STRING, LONG))["c"].to_pylist() == rows[1:]


def test_damaged_data_is_refused() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    assert refusal(pa.table({"c": broken}), one(STRING)).field == "data"


def test_data_without_rows_fits() -> None:
    result = conform(pa.table({"c": pa.chunked_array([], pa.list_(pa.int32()))}), one(ArrayType(LONG)), table="t")
    assert (result.num_rows, result.schema) == (0, schema_to_arrow(one(ArrayType(LONG))))


def values_of(kind: DataType, *, nullable: bool) -> st.SearchStrategy[Any]:
    inner: st.SearchStrategy[Any]
    match kind:
        case StructType():
            inner = st.fixed_dictionaries(
                {field.name: values_of(field.type, nullable=field.nullable) for field in kind.fields}
            )
        case ArrayType():
            inner = st.lists(values_of(kind.element_type, nullable=kind.contains_null), max_size=2)
        case MapType():
            item = values_of(kind.value_type, nullable=kind.value_contains_null)
            inner = st.lists(st.tuples(values_of(kind.key_type, nullable=False), item), max_size=2)
        case DecimalType():
            inner = st.just(Decimal(0))
        case PrimitiveType():
            inner = st.just({"string": "x", "binary": b"x", "boolean": True}.get(kind.name, 1))
    return st.none() | inner if nullable else inner


@st.composite
def tables(draw: st.DrawFn) -> tuple[StructType, pa.Table]:
    schema = draw(structs(TYPES))
    rows = draw(st.lists(values_of(schema, nullable=False), max_size=4))
    # Built without constraints, as data comes in.
    free = schema_to_arrow(_nullable(schema))
    return schema, pa.Table.from_pylist(rows, schema=free)


def _nullable(kind: Any) -> Any:
    match kind:
        case StructType():
            return StructType(tuple(StructField(field.name, _nullable(field.type)) for field in kind.fields))
        case ArrayType():
            return ArrayType(_nullable(kind.element_type))
        case MapType():
            return MapType(_nullable(kind.key_type), _nullable(kind.value_type))
        case _:
            return kind


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 3))
def test_data_that_fits_keeps_its_rows_and_can_be_written(drawn: tuple[StructType, pa.Table], start: int) -> None:
    schema, data = drawn
    data = data.slice(start)
    result = conform(data, schema, table="t")
    result.validate(full=True)
    assert result.schema == schema_to_arrow(schema)
    assert result.to_pylist() == data.to_pylist()
    buffer = io.BytesIO()
    pq.write_table(result, buffer)
    assert pq.read_table(buffer).to_pylist() == data.to_pylist()


def test_columns_that_are_missing_become_null_where_that_is_asked_for() -> None:
    wanted = schema_from_arrow(
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                ("s", pa.struct([("x", pa.int64()), pa.field("y", pa.string(), nullable=True)])),
                ("l", pa.list_(pa.int64())),
            ]
        )
    )
    data = pa.table({"s": pa.array([{"y": "v"}, None], pa.struct([("y", pa.string())])), "id": [1, 2]})
    found = conform(data, wanted, table="t", fill=True)
    assert found.to_pylist() == [{"id": 1, "s": {"x": None, "y": "v"}, "l": None}, {"id": 2, "s": None, "l": None}]
    with pytest.raises(SchemaError) as caught:
        conform(data, wanted, table="t")
    assert caught.value.field == "l"
    # What may not be null cannot be left out.
    with pytest.raises(SchemaError) as caught:
        conform(data.drop_columns(["id"]), wanted, table="t", fill=True)
    assert caught.value.field == "id"
