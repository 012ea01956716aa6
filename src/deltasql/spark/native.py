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
from deltasql.protocol.features import check_readable
from deltasql.protocol.paths import decode_path, encode_path, is_absolute
from deltasql.protocol.predicate import parse, to_sql
from deltasql.spark.reach import require_reach

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PATTERN = re.compile(r"[{}\[\]*?\\]")
_FILE, _FOUND = "__deltasql_file", "__deltasql_found"


def to_dataframe(spark: SparkSession, entry: TableEntry, snapshot: Snapshot, filter: str | None = None) -> DataFrame:
    """The rows of a snapshot, or those for which `filter` is true, from the files that may hold such rows."""
    if filter is None:
        return _rows(spark, entry, snapshot, list(snapshot.adds()))
    predicate = parse(filter, snapshot.structure)
    chosen = [add for add in snapshot.adds() if snapshot.may_match(predicate, add)]
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
    paths = [_path(entry, add) for add in files]
    # A bracket in a name would be taken for a pattern.
    rows = spark.read.schema(data_schema).parquet(*(_PATTERN.sub(r"\\\g<0>", path) for path in paths))
    if not partitioned:
        return rows
    # The empty text and null are the same partition.
    values = [
        (_shown(path), *(add.partition_values.get(name) or None for name in partitioned))
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


def _path(entry: TableEntry, add: AddFile) -> str:
    """The file as Hadoop takes it: not percent-encoded."""
    return decode_path(add.path) if is_absolute(add.path) else f"{unquote(entry.location)}/{decode_path(add.path)}"


def _shown(path: str) -> str:
    """The file as Spark shows it in `_metadata.file_path`: percent-encoded, local files with one slash."""
    scheme, _, rest = path.partition("://")
    return f"file:/{encode_path(rest.lstrip('/'))}" if scheme == "file" else f"{scheme}://{encode_path(rest)}"
