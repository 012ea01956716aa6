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


def files_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """File rows, in the column order of `FILES`, as an Arrow table."""
    return _table(rows, FILES)


def tombstones_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    return _table(rows, TOMBSTONES)


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.Table.from_arrays(
        [_column(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind.equals(TEXT_MAP):
        return _maps(values)
    if kind.equals(DELETION_VECTOR):
        return pa.array([_vector(text) for text in values], DELETION_VECTOR)
    if pa.types.is_boolean(kind):
        # SQLite has no booleans: it gives 0 and 1.
        return pa.array(values, pa.int8()).cast(pa.bool_()) if _integers(values) else pa.array(values, kind)
    return pa.array(values, kind)


def _integers(values: list[Any]) -> bool:
    return any(type(value) is int for value in values)


def _maps(texts: list[str | None]) -> pa.Array:
    """JSON objects as a map column. Few distinct ones are the rule, so each is parsed once."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    distinct = [list(orjson.loads(text).items()) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(distinct, TEXT_MAP), encoded.indices)


def _vector(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    vector = msgspec.json.decode(text, type=DeletionVector)
    return {name: getattr(vector, name) for name in DELETION_VECTOR.names}
