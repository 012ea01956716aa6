"""Verbs on tables: list, create, describe, history, append, and those of `files` and `alter`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from deltasql.cli import alter, files
from deltasql.cli.options import MAX_NUMBER, AsJson, LedgerUrl, TableName, open_lake
from deltasql.cli.output import instant, print_fields, print_json, print_line, print_table
from deltasql.errors import ConfigError, InvalidInputError

if TYPE_CHECKING:
    from deltasql.protocol.schema import DataType

app = typer.Typer(name="table", help="Make, list and look into tables.", invoke_without_command=True)

app.command()(files.files)
app.command()(files.partitions)
app.command("set")(alter.set_properties)
app.command("unset")(alter.unset_properties)
app.command()(alter.rename)
app.command()(alter.drop)
app.add_typer(alter.constraint)


@app.command("list")
def list_tables(ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """List the tables and their versions."""
    with open_lake(ledger) as lake:
        tables = [
            {
                "name": table.name,
                "version": table.version,
                "published_version": _published(table.mirror_head().published_version),
                "location": table.location,
            }
            for table in lake.tables()
        ]
    if as_json:
        print_json({"tables": tables})
    else:
        print_table(["name", "version", "published", "location"], [list(table.values()) for table in tables])


@app.command()
def create(
    name: TableName,
    schema: Annotated[
        str, typer.Option("--schema", metavar="FILE|JSON", help="The Delta schema: a file, or the JSON itself.")
    ],
    partition_by: Annotated[
        str, typer.Option("--partition-by", metavar="A,B", help="Partition columns, separated by commas.")
    ] = "",
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="K=V", help="A table property; may be repeated.")
    ] = None,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Create a table below the ledger's root."""
    structure = _read_schema(schema)
    columns = [column.strip() for column in partition_by.split(",")] if partition_by else []
    given = alter.pairs(properties or [], "--property delta.appendOnly=true")
    with open_lake(ledger) as lake:
        if lake.root is None:
            raise ConfigError(
                "this ledger has no root, so a new table has no place",
                hint="give it one: deltasql init --ledger URL --root PATH",
                field="root",
            )
        table = lake.create_table(name, structure, columns, given)
    if as_json:
        print_json({"name": table.name, "version": 0, "location": table.location})
    else:
        print_fields({"name": table.name, "version": 0, "location": table.location})


@app.command()
def describe(name: TableName, ledger: LedgerUrl = None, as_json: AsJson = False) -> None:
    """Show a table's columns, properties and size."""
    with open_lake(ledger) as lake:
        table = lake.table(name)
        snapshot = table.snapshot()
        published = _published(table.mirror_head().published_version)
        adds = list(snapshot.adds())
        rows = files.total(snapshot.facts(add).num_records for add in adds)
    metadata, protocol, size = snapshot.metadata, snapshot.protocol, sum(add.size for add in adds)
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    if as_json:
        print_json(
            {
                "name": table.name,
                "location": table.location,
                "id": metadata.id,
                "version": snapshot.version,
                "timestamp": snapshot.timestamp,
                "published_version": published,
                "files": len(adds),
                "bytes": size,
                "rows": rows,
                "partition_columns": metadata.partition_columns,
                "properties": metadata.configuration,
                "min_reader_version": protocol.min_reader_version,
                "min_writer_version": protocol.min_writer_version,
                "features": features,
                "schema": msgspec.Raw(metadata.schema_string.encode()),
            }
        )
        return
    print_fields(
        {
            "name": table.name,
            "location": table.location,
            "id": metadata.id,
            "version": snapshot.version,
            "time": instant(snapshot.timestamp),
            "published": published,
            "files": len(adds),
            "bytes": size,
            "rows": rows,
            "partition by": ", ".join(metadata.partition_columns) or None,
            "properties": metadata.configuration,
            "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
            "features": ", ".join(features) or None,
        }
    )
    print_line("")
    print_table(
        ["column", "type", "nullable"],
        [(field.name, type_name(field.type), "yes" if field.nullable else "no") for field in snapshot.structure.fields],
    )


@app.command()
def history(
    name: TableName,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, max=MAX_NUMBER, help="Only the newest N.")
    ] = None,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """List a table's commits, newest first."""
    with open_lake(ledger) as lake:
        commits = lake.table(name).history(limit)
    if as_json:
        print_json({"table": name, "commits": commits})
    else:
        print_table(
            ["version", "time", "operation", "origin", "mirror"],
            [(each.version, instant(each.timestamp), each.operation, each.origin, each.mirror) for each in commits],
        )


@app.command()
def append(
    name: TableName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Parquet file.", exists=True, dir_okay=False)],
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Append the rows of a Parquet file."""
    with open_lake(ledger) as lake:
        table = lake.table(name)
        committed = table.append(_read_parquet(file))
    alter.print_committed(committed, as_json=as_json)


def type_name(kind: DataType) -> str:
    """A type in one line, as SQL people write it."""
    from deltasql.protocol.schema import ArrayType, MapType, StructType

    match kind:
        case ArrayType():
            return f"array<{type_name(kind.element_type)}>"
        case MapType():
            return f"map<{type_name(kind.key_type)},{type_name(kind.value_type)}>"
        case StructType():
            return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind.fields)}>"
        case _:
            return kind.name


def _published(version: int) -> int | None:
    """None where nothing is in the log yet."""
    return None if version < 0 else version


def _read_schema(given: str) -> str:
    try:
        return given if given.lstrip().startswith("{") else Path(given).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the schema {given:.100} cannot be read: {error}",
            hint='give a file, or JSON such as {"type":"struct","fields":[…]}',
            field="schema",
        ) from error


def _read_parquet(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table(): that takes folders such as day=1 in the path for columns.
        return pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(
            f"{file} cannot be read as Parquet: {error}", hint="give a Parquet file", field="file"
        ) from error
