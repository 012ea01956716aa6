"""One form for the rows of every engine, so that two readers agree exactly where the two forms are equal.

Only spellings are made alike: the width of offsets (string, large string, string view), what a list calls its
element, whether a type says that it may be null, the order of rows and of a map's entries. Values are not touched:
-0.0 stays -0.0, and a timestamp that came in another unit or zone is another type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

# Every table of the tests has this column; no value stands in it twice.
KEY = "k"


def normalise(table: pa.Table) -> pa.Table:
    """The rows ordered by their key, in the one spelling of their types."""
    fields = [pa.field(field.name, spelling(field.type)) for field in table.schema]
    arrays = [
        pa.array([_value(value, field.type) for value in column.to_pylist()], field.type)
        for field, column in zip(fields, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)).sort_by(KEY)


def difference(found: pa.Table, expected: pa.Table) -> str | None:
    """The first thing in which two tables differ, both of them normalised; None where nothing does."""
    if found.schema != expected.schema:
        return f"schema\n{found.schema}\ninstead of\n{expected.schema}"
    if found.num_rows != expected.num_rows:
        return f"{found.num_rows} rows instead of {expected.num_rows}"
    # As text, because NaN equals nothing and -0.0 equals 0.0.
    for got, wanted in zip(found.to_pylist(), expected.to_pylist(), strict=True):
        for name in wanted:
            if repr(got[name]) != repr(wanted[name]):
                return f"{KEY} = {wanted[KEY]}, column {name}: {got[name]!r} instead of {wanted[name]!r}"
    return None


def spelling(kind: pa.DataType) -> pa.DataType:
    """The type as the ledger spells it."""
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([(field.name, spelling(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(spelling(kind.key_type), spelling(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", spelling(kind.value_type)))
    return kind


def _value(value: Any, kind: pa.DataType) -> Any:
    """The value with the entries of its maps in order."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return sorted(((key, _value(item, kind.item_type)) for key, item in value), key=lambda entry: entry[0])
    if types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    return value
