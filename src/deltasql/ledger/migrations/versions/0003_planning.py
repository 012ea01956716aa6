"""Where files lie: partitions in a table of their own, the ranges of a few columns in indexes."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from deltasql.ledger.contracts import LIVE
from deltasql.ledger.layout import PLACE_COLUMNS, Layout, choose_slots
from deltasql.ledger.placing import clustering_columns
from deltasql.ledger.rows import ADD, METADATA, text_key

revision = "0003"
down_revision = "0002"

_KEY_PARTS = (("width", sa.Integer), ("low", sa.BigInteger), ("high", sa.BigInteger))
_SLOT_NAMES: tuple[str, ...] = ("table", "number", "path", "kind")


def upgrade() -> None:
    database = op.get_context().dialect.name
    _add_layout_version(database)
    op.add_column("dl_add_files", sa.Column("partition_id", sa.Integer()))
    for slot in (1, 2):
        for part, kind in _KEY_PARTS:
            op.add_column("dl_add_files", sa.Column(f"k{slot}_{part}", kind()))
    op.create_table(
        "dl_partitions",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("values_key", sa.BigInteger(), nullable=False),
        sa.Column("partition_values", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "partition_id"),
    )
    op.create_table(
        "dl_skipping_columns",
        sa.Column("table_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("column_path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "slot"),
    )
    _number_partitions()
    _place_files()
    if database != "duckdb":
        op.create_index("dl_partitions_values", "dl_partitions", ["table_id", "values_key"])
        for slot in (1, 2):
            live = sa.text(f"removed_version = {LIVE}")
            columns = ["table_id", "partition_id", f"k{slot}_width", f"k{slot}_high", f"k{slot}_low"]
            op.create_index(f"dl_add_files_k{slot}", "dl_add_files", columns, sqlite_where=live, postgresql_where=live)


def _add_layout_version(database: str) -> None:
    if database == "duckdb":
        # Constrained first and filled by a default: it cannot constrain a table that was updated meanwhile.
        op.execute("ALTER TABLE dl_table_heads ADD COLUMN layout_version BIGINT DEFAULT -1")
        op.execute("ALTER TABLE dl_table_heads ALTER COLUMN layout_version SET NOT NULL")
        op.execute("ALTER TABLE dl_table_heads ALTER COLUMN layout_version DROP DEFAULT")
    else:
        column = sa.Column("layout_version", sa.BigInteger(), nullable=False, server_default=sa.text("-1"))
        op.add_column("dl_table_heads", column)
    op.execute("UPDATE dl_table_heads SET layout_version = metadata_version")


def _rows(statement: str, **values: Any) -> list[Any]:
    return list(op.get_bind().execute(sa.text(statement), values))


def _number_partitions() -> None:
    run = op.get_bind().execute
    numbers: dict[int, int] = {}
    found = _rows("SELECT DISTINCT table_id, partition_values FROM dl_add_files ORDER BY table_id, partition_values")
    for table_id, values in found:
        number = numbers[table_id] = numbers.get(table_id, -1) + 1
        row = {"table": table_id, "number": number, "key": text_key(values), "given": values}
        run(sa.text("INSERT INTO dl_partitions VALUES (:table, :number, :key, :given)"), row)
    run(
        sa.text(
            "UPDATE dl_add_files SET partition_id = (SELECT p.partition_id FROM dl_partitions p "
            "WHERE p.table_id = dl_add_files.table_id AND p.partition_values = dl_add_files.partition_values)"
        )
    )


def _place_files() -> None:
    """The indexed columns of each table, and the keys of its live files."""
    run = op.get_bind().execute
    metadata_columns = ", ".join(f"m.{column}" for column in METADATA.columns)
    tables = _rows(
        f"SELECT h.table_id, d.configuration, {metadata_columns} FROM dl_table_heads h "
        "JOIN dl_metadata_updates m ON m.table_id = h.table_id AND m.version = h.metadata_version "
        "LEFT JOIN dl_domain_metadata d ON d.table_id = h.table_id AND d.domain = 'delta.clustering' "
        f"AND d.superseded_version = {LIVE} AND d.removed = :no",
        no=False,
    )
    for table_id, clustering, *metadata_row in tables:
        metadata: Any = METADATA.from_row(metadata_row)
        slots = choose_slots(metadata, [] if clustering is None else clustering_columns(clustering))
        layout = Layout.of(metadata, slots)
        for slot in slots:
            row = dict(zip(_SLOT_NAMES, slot.to_row(table_id), strict=True))
            run(sa.text("INSERT INTO dl_skipping_columns VALUES (:table, :number, :path, :kind)"), row)
        _place_table(table_id, layout)


def _place_table(table_id: int, layout: Layout) -> None:
    files = _rows(
        f"SELECT version, ordinal, {', '.join(ADD.columns)} FROM dl_add_files "
        f"WHERE table_id = :table AND removed_version = {LIVE}",
        table=table_id,
    )
    names = PLACE_COLUMNS[1:]
    placed = [
        {"table": table_id, "at_version": row[0], "place": row[1]}
        | dict(zip(names, layout.keys(_file(row[2:])), strict=True))
        for row in files
    ]
    if placed:
        changes = ", ".join(f"{name} = :{name}" for name in names)
        where = "table_id = :table AND version = :at_version AND ordinal = :place"
        op.get_bind().execute(sa.text(f"UPDATE dl_add_files SET {changes} WHERE {where}"), placed)


def _file(row: Any) -> Any:
    return ADD.from_row(row)
