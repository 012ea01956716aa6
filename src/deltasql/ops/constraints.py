"""What a table asks of the rows that are written to it: no nulls where there may be none, CHECK constraints,
invariants, defaults and generated columns.

A row must make every constraint true: one that is unknown, because of a null, is broken, as in Delta Spark.
This module runs on executors too, so it imports no database.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import DeltaSqlError, InvalidInputError, PredicateError, UnsupportedError
from deltasql.ops.generation import Generation, parse_generation
from deltasql.protocol.actions import Metadata, TableProtocol
from deltasql.protocol.arrow import conform, schema_to_arrow
from deltasql.protocol.features import writer_features
from deltasql.protocol.jsonlog import load_object
from deltasql.protocol.predicate import And, Column, Comparison, IsNull, Not, Predicate, columns, parse
from deltasql.protocol.predicate_literals import Value, type_name
from deltasql.protocol.predicate_tree import quote_name
from deltasql.protocol.rows import evaluate
from deltasql.protocol.schema import ArrayType, MapType, StructField, StructType, parse_schema

CONSTRAINT = "delta.constraints."
_INVARIANT, _GENERATION, _DEFAULT = "delta.invariants", "delta.generationExpression", "CURRENT_DEFAULT"
_IDENTITY = "delta.identity.start"
# Of a value in an error.
_MAX_TEXT = 100


class Constraint(msgspec.Struct, frozen=True):
    """A condition that every row of a table makes true. `name` is that of the constraint, or of its column."""

    name: str
    expression: str
    predicate: Predicate

    def broken_by(self, rows: pa.Table) -> pa.Table:
        """The rows that do not make it true."""
        return rows.filter(pc.invert(pc.fill_null(evaluate(self.predicate, rows), False)))

    def check(self, rows: pa.Table, *, table: str) -> None:
        broken = self.broken_by(rows)
        if broken.num_rows:
            raise self.violated(broken, rows.num_rows, table=table)

    def violated(self, broken: pa.Table, total: int, *, table: str, place: str = "") -> InvalidInputError:
        return InvalidInputError(
            f"table {table}: {broken.num_rows} of {total} rows{place} break the constraint {self.name!r} "
            f"({self.expression:.200}); the first has {_shown(broken, self.predicate)}",
            hint="correct or leave out those rows, or drop the constraint; nothing was written",
            field=f"constraints.{self.name}",
        )


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a table asks of new rows, worked out once for any number of them."""

    table: str
    schema: StructType
    constraints: tuple[Constraint, ...]
    # The columns that the data may lack, and what they get then.
    defaults: tuple[StructField, ...]
    generated: Mapping[str, Generation]

    def fit(self, rows: pa.Table, *, fill: bool = False) -> pa.Table:
        """The rows as the table has them, complete and checked; an error where one of them may not be in it.

        With `fill` a column that has no default and is missing becomes null, where it may.
        """
        given = {name.casefold() for name in rows.column_names}
        for field in self.defaults:
            if field.name.casefold() not in given:
                value = pa.scalar(_default(self.table, field), schema_to_arrow(StructType((field,))).field(0).type)
                rows = rows.append_column(field.name, pa.repeat(value, rows.num_rows))
        missing = [name for name in self.generated if name.casefold() not in given]
        stored = StructType(tuple(field for field in self.schema.fields if field.name not in missing))
        fitted = conform(rows, stored, table=self.table, fill=fill)
        for name, generation in self.generated.items():
            values = generation.evaluate(fitted)
            if name not in missing:
                self._check_generated(name, fitted, values)
        if missing:
            for name in missing:
                fitted = fitted.append_column(name, self.generated[name].evaluate(fitted))
            # Once more, for the order, and because a generated column may be one that has no nulls.
            fitted = conform(fitted, self.schema, table=self.table)
        for constraint in self.constraints:
            constraint.check(fitted, table=self.table)
        return fitted

    def _check_generated(self, name: str, rows: pa.Table, wanted: pa.ChunkedArray) -> None:
        found = rows.column(name)
        same = pc.or_(pc.fill_null(_equal(found, wanted), False), pc.and_(pc.is_null(found), pc.is_null(wanted)))
        wrong = pc.indices_nonzero(pc.invert(same))
        if len(wrong):
            first = wrong[0].as_py()
            raise InvalidInputError(
                f"table {self.table}: {len(wrong)} of {rows.num_rows} rows have another value in the generated column "
                f"{name!r} than its expression gives; the first has {_text(found[first].as_py())}, it must be "
                f"{_text(wanted[first].as_py())}",
                hint=f"leave the column {name} out of the data: it is worked out; nothing was written",
                field=name,
            )


def enforce(metadata: Metadata, protocol: TableProtocol, rows: pa.Table, *, table: str, fill: bool = False) -> pa.Table:
    """The rows as the table has them, complete and checked, in its canonical Arrow schema."""
    return rules_of(metadata, protocol, table=table).fit(rows, fill=fill)


def rules_of(metadata: Metadata, protocol: TableProtocol, *, table: str) -> Rules:
    """What a table asks of new rows; an `UnsupportedError` names what deltasql cannot keep."""
    schema = parse_schema(metadata.schema_string)
    active = writer_features(protocol)
    if "identityColumns" in active:
        for field in schema.fields:
            if _IDENTITY in field.metadata:
                raise _unsupported(table, f"column {field.name!r} counts by itself (an identity column)", field.name)
    constraints = [
        check_constraint(table, name, expression, schema)
        for name, expression in check_constraints(metadata.configuration).items()
    ]
    constraints += _invariants(table, schema)
    fields = schema.fields
    defaults = [field for field in fields if _DEFAULT in field.metadata and "allowColumnDefaults" in active]
    generated = [field for field in fields if _GENERATION in field.metadata and "generatedColumns" in active]
    return Rules(
        table=table,
        schema=schema,
        constraints=tuple(constraints),
        defaults=tuple(defaults),
        generated={field.name: _generation(table, field, schema, generated) for field in generated},
    )


def check_constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """The CHECK constraints among a table's properties, by name."""
    found = (item for item in configuration.items() if item[0].lower().startswith(CONSTRAINT))
    return {name[len(CONSTRAINT) :]: expression for name, expression in found}


def check_constraint(table: str, name: str, expression: str, schema: StructType) -> Constraint:
    """A constraint of a table that is there; one that deltasql cannot work out forbids every write."""
    try:
        return Constraint(name, expression, parse(expression, schema))
    except PredicateError as error:
        raise _unsupported(
            table, f"the constraint {name!r} ({expression:.200}) cannot be checked here: {error.message}", name
        ) from error


def _invariants(table: str, schema: StructType, parents: tuple[str, ...] = ()) -> Iterator[Constraint]:
    """Conditions that older writers kept with a column, inside structs too."""
    kind = schema
    for name in parents:
        kind = cast("StructType", cast("StructField", kind.field(name)).type)
    for field in kind.fields:
        path = (*parents, field.name)
        if _INVARIANT in field.metadata:
            yield check_constraint(table, ".".join(path), _invariant(table, field), schema)
        if isinstance(field.type, StructType):
            yield from _invariants(table, schema, path)


def _invariant(table: str, field: StructField) -> str:
    try:
        rule: Any = load_object(field.metadata[_INVARIANT], source=_INVARIANT)
        expression = rule["expression"]["expression"]
        if isinstance(expression, str):
            return expression
    except (DeltaSqlError, KeyError, TypeError, AttributeError):
        pass
    raise _unsupported(table, f"the invariant of column {field.name!r} is not understood", field.name)


def _default(table: str, field: StructField) -> Value | None:
    """The value of a literal. Compared with its own column it becomes one that the column can hold."""
    text = field.metadata[_DEFAULT]
    column = quote_name(field.name)
    try:
        compared = parse(f"{column} <=> {text}", StructType((StructField(field.name, field.type),)))
    except PredicateError:
        compared = None
    match compared:
        case IsNull():
            return None
        case And((Not(IsNull()), Comparison(_, "=", value))) if not isinstance(value, Column):
            return value
        case _:
            what = f"the default of column {field.name!r} ({text!s:.100}) is no literal of type {type_name(field.type)}"
            hint = f"give the column {field.name} in the data"
            raise UnsupportedError(f"table {table}: {what}", hint=hint, field=field.name)


def _generation(table: str, field: StructField, schema: StructType, generated: list[StructField]) -> Generation:
    text = field.metadata[_GENERATION]
    try:
        generation = parse_generation(str(text), schema)
        if isinstance(field.type, StructType | ArrayType | MapType):
            raise ValueError("nested values are not compared")
        if generation.type != field.type:
            raise ValueError(f"it gives {type_name(generation.type)}, the column is {type_name(field.type)}")
        if generation.path[0] in {each.name for each in generated}:
            raise ValueError("it is made of another generated column")
    except ValueError as error:
        what = f"the generated column {field.name!r} ({text!s:.100}) cannot be worked out here: {error}"
        raise _unsupported(table, what, field.name) from error
    return generation


def _unsupported(table: str, what: str, field: str) -> UnsupportedError:
    hint = "write to this table with Delta Spark; its log is still mirrored whole"
    return UnsupportedError(f"table {table}: {what}", hint=hint, field=field)


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    equal = pc.equal(left, right)
    return pc.or_kleene(equal, pc.and_kleene(pc.is_nan(left), pc.is_nan(right))) if _is_float(left) else equal


def _is_float(values: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(values.type)


def _shown(rows: pa.Table, predicate: Predicate) -> str:
    """The values of the first row that a condition looks at."""
    shown: list[str] = []
    for name, *inner in sorted(columns(predicate)):
        value = pc.struct_field(rows.column(name), inner) if inner else rows.column(name)
        shown.append(f"{'.'.join([name, *inner])} = {_text(value[0].as_py())}")
    return ", ".join(shown) or "no columns to look at"


def _text(value: object) -> str:
    return "null" if value is None else f"{value!r:.{_MAX_TEXT}}" if isinstance(value, str) else str(value)[:_MAX_TEXT]
