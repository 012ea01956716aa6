"""Creating a table."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa

from deltasql.errors import InvalidInputError, MalformedLogError, SchemaError, StorageError, TableExistsError
from deltasql.ledger.contracts import CommitDraft
from deltasql.ledger.registry import check_name
from deltasql.ops.services import Services
from deltasql.protocol.actions import Metadata
from deltasql.protocol.arrow import schema_from_arrow
from deltasql.protocol.features import check_creatable, protocol_for
from deltasql.protocol.jsonlog import dump_json
from deltasql.protocol.paths import LOG_DIR
from deltasql.protocol.properties import IN_COMMIT_TIMESTAMPS, check_properties
from deltasql.protocol.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructType,
    check_schema,
    parse_schema,
    schema_string,
)
from deltasql.storage.base import ObjectStore

_EXAMPLE = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def draft_create(
    services: Services,
    name: str,
    location: str,
    schema: pa.Schema | StructType | str,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    description: str | None = None,
) -> CommitDraft:
    """The first commit of a new table. The location is looked at, so that a table found there is not written over."""
    check_name(name)
    structure = _schema(schema)
    check_schema(structure)
    partitions = _partition_columns(structure, partition_by)
    given = dict(properties or {})
    check_properties(given)
    configuration = {IN_COMMIT_TIMESTAMPS: "true", **given}
    if configuration[IN_COMMIT_TIMESTAMPS].lower() != "true":
        del configuration[IN_COMMIT_TIMESTAMPS]
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        schema_string=schema_string(structure),
        partition_columns=partitions,
        configuration=configuration,
        created_time=time.time_ns() // 1_000_000,
    )
    check_creatable(structure, metadata)
    _check_location(services.store_at(location), location)
    return CommitDraft(
        table=name,
        actions=[metadata, protocol_for(structure, metadata)],
        operation="CREATE TABLE",
        parameters={
            "partitionBy": dump_json(partitions).decode(),
            "description": description,
            "isManaged": "false",
            "properties": dump_json(configuration).decode(),
        },
        create_at=location,
    )


def _schema(schema: object) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    if isinstance(schema, str):
        try:
            return parse_schema(schema)
        except MalformedLogError as error:
            raise SchemaError(error.message, hint=f"give a Delta schema as JSON: {_EXAMPLE}", field="schema") from error
    raise InvalidInputError(
        f"a schema of type {type(schema).__name__} is not understood",
        hint="give a pyarrow.Schema, a Delta schema string, or a deltasql StructType",
        field="schema",
    )


def _partition_columns(schema: StructType, wanted: Sequence[str]) -> tuple[str, ...]:
    if isinstance(wanted, str):
        raise InvalidInputError("partition_by is text", hint=f"give a list: [{wanted!r}]", field="partition_by")
    columns: list[str] = []
    for name in wanted:
        field = schema.field(name)
        if field is None:
            raise SchemaError(
                f"partition column {name!r} is not in the schema",
                hint=f"choose from: {', '.join(schema.names)}",
                field="partition_by",
            )
        if isinstance(field.type, StructType | ArrayType | MapType) or field.type == PrimitiveType("variant"):
            raise SchemaError(
                f"column {name!r} cannot be a partition column", hint="choose one of a plain type", field="partition_by"
            )
        if field.name in columns:
            raise SchemaError(f"partition column {name!r} stands twice", hint="name it once", field="partition_by")
        columns.append(field.name)
    if columns and len(columns) == len(schema.fields):
        raise SchemaError(
            "every column is a partition column, so nothing would be left for the files",
            hint="leave at least one column out of partition_by",
            field="partition_by",
        )
    return tuple(columns)


def _check_location(store: ObjectStore, location: str) -> None:
    if next(iter(store.list(f"{LOG_DIR}/")), None) is not None:
        raise TableExistsError(
            f"{location} holds a Delta table already",
            hint="take it in with: deltasql adopt LOCATION --name NAME",
            field="location",
        )
    # Better told now than by the first append: whether anything can be written there at all.
    probe = f"_deltasql_probe-{uuid.uuid4().hex}"
    try:
        store.put(probe, b"")
        store.delete(probe)
    except StorageError as error:
        hint = error.hint or "make sure the place exists and this process may write there"
        raise type(error)(f"{location} cannot be written: {error.message}", hint=hint, field="location") from error
