"""Rows of the ledger as Arrow, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.protocol.actions import DeletionVector
from deltasql.protocol.files import DELETION_VECTOR, FILES, TEXT_MAP, TOMBSTONES

# Stands for NULL where a driver guesses the type of a column from its first values and would guess wrong.
NO_TEXT = "\x01"


def files_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """File rows, in the column order of `FILES`, as an Arrow table."""
    return _table(rows, FILES)


def tombstones_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    return _table(rows, TOMBSTONES)


def files_from_arrow(batch: pa.RecordBatch) -> pa.Table:
    """The same from columns that a driver made. No row becomes an object of Python's."""
    columns = [_conformed(column, field.type) for column, field in zip(batch.columns, FILES, strict=True)]
    return pa.Table.from_arrays(columns, schema=FILES)


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.Table.from_arrays(
        [_column(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind.equals(TEXT_MAP) or kind.equals(DELETION_VECTOR):
        return _parsed(pa.array(values, pa.string()), kind)
    if pa.types.is_boolean(kind):
        # SQLite has no booleans: it gives 0 and 1.
        return pa.array(values, pa.int8()).cast(pa.bool_()) if _integers(values) else pa.array(values, kind)
    return pa.array(values, kind)


def _integers(values: list[Any]) -> bool:
    return any(type(value) is int for value in values)


def _conformed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
        column = pc.if_else(pc.equal(column, NO_TEXT), pa.scalar(None, pa.string()), column)
        return column if kind.equals(pa.string()) else _parsed(column, kind)
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    return column.cast(kind)


def _parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """JSON texts as maps or deletion vectors. Few distinct ones are the rule, so each is parsed once."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    encoded = texts.dictionary_encode()
    parse = _vector if kind.equals(DELETION_VECTOR) else _pairs
    distinct = [parse(text) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(distinct, kind), encoded.indices)


def _pairs(text: str) -> list[tuple[str, Any]]:
    return list(orjson.loads(text).items())


def _vector(text: str) -> dict[str, Any]:
    vector = msgspec.json.decode(text, type=DeletionVector)
    return {name: getattr(vector, name) for name in DELETION_VECTOR.names}
