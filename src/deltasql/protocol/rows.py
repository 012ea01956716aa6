"""Which rows satisfy a predicate: true, false, or null where SQL does not know.

Spark's order holds: NaN equals NaN and is greater than every other number, both zeros are equal, and strings and
binary values compare by their bytes.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from functools import reduce
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import SchemaError
from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.like import like_re2
from deltasql.protocol.predicate import And, Column, Comparison, Constant, In, IsNull, Like, Not, Or, Predicate
from deltasql.protocol.predicate_compare import comparison_type
from deltasql.protocol.predicate_literals import DOUBLE, Value
from deltasql.protocol.predicate_tree import Operator
from deltasql.protocol.schema import (
    MAX_DECIMAL_PRECISION,
    DataType,
    DecimalType,
    StructField,
    StructType,
)

_Values: TypeAlias = "pa.ChunkedArray | pa.Array | pa.Scalar"

_UNKNOWN = pa.scalar(None, pa.bool_())


def evaluate(predicate: Predicate, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    """One boolean for each row; a row matches where it is true. The table has the columns that the predicate names."""
    result = _evaluate(predicate, table)
    return pa.repeat(result, table.num_rows) if isinstance(result, pa.Scalar) else result


def _evaluate(predicate: Predicate, table: pa.Table) -> _Values:
    match predicate:
        case Constant(value):
            return pa.scalar(value, pa.bool_())
        case And(operands):
            return reduce(pc.and_kleene, (_evaluate(part, table) for part in operands))
        case Or(operands):
            return reduce(pc.or_kleene, (_evaluate(part, table) for part in operands))
        case Not(operand):
            return pc.invert(_evaluate(operand, table))
        case IsNull(column):
            return pc.is_null(_column(column, table))
        case Comparison(column, operator, operand):
            return _comparison(column, operator, operand, table)
        case In(column, values):
            return _among(column, values, table)
        case Like(column, pattern):
            return pc.match_substring_regex(_as(_column(column, table), column.type), like_re2(pattern))


def _column(column: Column, table: pa.Table) -> pa.ChunkedArray:
    name, *inner = column.path
    if table.schema.get_field_index(name) < 0:
        raise SchemaError(
            f"the rows have no column {name}",
            hint="read every column that the predicate names, as nulls where the file has none",
            field=name,
        )
    # A field of a null struct comes out as null.
    return pc.struct_field(table.column(name), inner) if inner else table.column(name)


def _comparison(column: Column, operator: Operator, operand: Value | Column, table: pa.Table) -> _Values:
    other = operand.type if isinstance(operand, Column) else column.type
    kind = cast("DataType", comparison_type(column.type, other))
    left = _as(_column(column, table), kind)
    right = _as(_column(operand, table), kind) if isinstance(operand, Column) else pa.scalar(operand, _arrow(kind))
    match operator:
        case "=":
            return _equal(left, right, kind)
        case "<":
            return _less(left, right, kind)
        case "<=":
            return pc.or_kleene(_less(left, right, kind), _equal(left, right, kind))
        # The order is total, so these are exactly the contrary; a null stays null.
        case ">":
            return pc.invert(pc.or_kleene(_less(left, right, kind), _equal(left, right, kind)))
        case ">=":
            return pc.invert(_less(left, right, kind))


def _equal(left: _Values, right: _Values, kind: DataType) -> _Values:
    equal = pc.equal(left, right)
    if kind != DOUBLE:
        return equal
    return pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def _less(left: _Values, right: _Values, kind: DataType) -> _Values:
    less = pc.less(left, right)
    if kind != DOUBLE:
        return less
    return pc.or_kleene(less, pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _among(column: Column, values: tuple[Value, ...], table: pa.Table) -> _Values:
    kind = cast("DataType", comparison_type(column.type, column.type))
    left = _as(_column(column, table), kind)
    if kind == DOUBLE:
        # Arrow looks the values up by their bits, which tells the zeros apart.
        return reduce(pc.or_kleene, (_equal(left, pa.scalar(value, _arrow(kind)), kind) for value in values))
    found = pc.is_in(left, pa.array(values, _arrow(kind)))
    return pc.if_else(pc.is_valid(left), found, _UNKNOWN)


def _as(values: pa.ChunkedArray, kind: DataType) -> pa.ChunkedArray:
    """The values in the type in which they are compared."""
    wanted = _arrow(kind)
    if values.type == wanted:
        return values
    # As in Spark, whatever is finer than a microsecond is cut off, and a whole number may be rounded to a double.
    return values.cast(wanted, safe=not (pa.types.is_timestamp(values.type) or kind == DOUBLE))


def _arrow(kind: DataType) -> pa.DataType:
    if isinstance(kind, DecimalType) and kind.precision > MAX_DECIMAL_PRECISION:
        return pa.decimal256(kind.precision, kind.scale)
    return schema_to_arrow(StructType((StructField("value", kind),))).field(0).type
