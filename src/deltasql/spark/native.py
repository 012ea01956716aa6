"""A snapshot as a DataFrame: Spark's own Parquet reader over the files the ledger names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from deltasql.errors import UnsupportedError
from deltasql.ledger.contracts import TableEntry
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import AddFile
from deltasql.protocol.column_mapping import field_id, map_fields, mapping_mode, physical_partitions
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.features import check_readable
from deltasql.protocol.paths import decode_path, encode_path, is_absolute
from deltasql.protocol.predicate import parse, to_sql
from deltasql.protocol.schema import StructField as Field
from deltasql.protocol.schema import StructType as Struct
from deltasql.protocol.schema import schema_string
from deltasql.spark.reach import require_reach

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATTERN = re.compile(r"[{}\[\]*?\\]")
_BY_ID = "spark.sql.parquet.fieldId.read.enabled"
_FILE, _FOUND = "__deltasql_file", "__deltasql_found"


def to_dataframe(spark: SparkSession, entry: TableEntry, snapshot: Snapshot, filter: str | None = None) -> DataFrame:
    """The rows of a snapshot, or those for which `filter` is true, from the files that may hold such rows."""
    if filter is None:
        return _rows(spark, entry, snapshot, list(snapshot.adds()))
    predicate = parse(filter, snapshot.structure)
    chosen = list(snapshot.planned(predicate))
    # Spelled anew, so that a time without a zone means UTC here too, whatever the session's zone.
    return _rows(spark, entry, snapshot, chosen).filter(to_sql(predicate))


def _rows(spark: SparkSession, entry: TableEntry, snapshot: Snapshot, files: Sequence[AddFile]) -> DataFrame:
    """The rows of these files. Partition values come from the ledger, joined by file, never from folder names."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    require_reach(entry)
    check_readable(entry.name, snapshot.protocol, snapshot.metadata)
    # Its overloads mention pandas, which is not installed where it is not wanted.
    create = cast("Any", spark).createDataFrame
    schema = StructType.fromJson(json.loads(snapshot.metadata.schema_string))
    if not files:
        return create([], schema)
    if any(add.deletion_vector for add in files):
        raise UnsupportedError(
            f"table {entry.name!r} has deletion vectors, which this release does not read",
            hint="read it by its path with Delta Spark",
            field="table",
        )
    partitioned = snapshot.metadata.partition_columns
    data_schema = StructType([field for field in schema.fields if field.name not in partitioned])
    mode = mapping_mode(snapshot.metadata.configuration)
    paths = [_path(entry, add) for add in files]
    # A bracket in a name would be taken for a pattern.
    places = [_PATTERN.sub(r"\\\g<0>", path) for path in paths]
    reader = spark.read.option(_BY_ID, "true") if mode == "id" else spark.read
    rows = reader.schema(data_schema if mode == "none" else _in_files(snapshot, partitioned)).parquet(*places)
    if mode != "none":
        # A file's columns are in the schema's order, fields of structs too, so that a cast only renames these.
        renamed = [
            F.col(f"`{found.name}`").cast(field.dataType).alias(field.name)
            for found, field in zip(rows.schema.fields, data_schema.fields, strict=True)
        ]
        rows = rows.select(*renamed, F.col("_metadata"))
    if not partitioned:
        return rows.drop("_metadata") if mode != "none" else rows
    # The empty text and null are the same partition.
    keys = physical_partitions(snapshot.metadata)
    values = [
        (_shown(path), *(add.partition_values.get(key) or None for key in keys))
        for path, add in zip(paths, files, strict=True)
    ]
    named = StructType([StructField(name, StringType()) for name in (_FILE, *partitioned)])
    lookup = F.broadcast(create(values, named).withColumnRenamed(_FILE, _FOUND))
    shown = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "file:/")
    joined = rows.withColumn(_FILE, shown).join(lookup, F.col(_FILE) == F.col(_FOUND), "left")

    def column(field: StructField) -> Column:
        found = F.col(f"`{field.name}`")
        if field.name not in partitioned:
            return found
        # A row must never lose its partition values in silence.
        lost = F.raise_error(F.concat(F.lit("deltasql: no partition values for "), F.col(_FILE))).cast(field.dataType)
        return F.when(F.col(_FOUND).isNull(), lost).otherwise(found.cast(field.dataType)).alias(field.name)

    return joined.select(*(column(field) for field in schema.fields))


def _in_files(snapshot: Snapshot, partitioned: Sequence[str]) -> Any:
    """The schema under which Spark finds a mapped table's columns in its files: by their names there, or their ids."""
    from pyspark.sql.types import StructType

    by_id = mapping_mode(snapshot.metadata.configuration) == "id"

    def named(field: Field) -> Field:
        # Where a schema has ids, Spark refuses files that have none; mapped by name, older files have none.
        mark = {"parquet.field.id": field_id(field)} if by_id else {}
        return Field(physical_name(field), field.type, field.nullable, mark)

    kept = Struct(tuple(field for field in snapshot.structure.fields if field.name not in partitioned))
    return StructType.fromJson(json.loads(schema_string(map_fields(kept, named))))


def _path(entry: TableEntry, add: AddFile) -> str:
    """The file as Hadoop takes it: not percent-encoded."""
    return decode_path(add.path) if is_absolute(add.path) else f"{unquote(entry.location)}/{decode_path(add.path)}"


def _shown(path: str) -> str:
    """The file as Spark shows it in `_metadata.file_path`: percent-encoded, local files with one slash."""
    scheme, _, rest = path.partition("://")
    return f"file:/{encode_path(rest.lstrip('/'))}" if scheme == "file" else f"{scheme}://{encode_path(rest)}"
