"""What depends on a column: constraints, generated columns, invariants, clustering."""

from __future__ import annotations

from typing import Any, cast

from deltasql.errors import SchemaError
from deltasql.ledger.contracts import TableEntry
from deltasql.ops.services import Services
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.column_mapping import all_fields
from deltasql.protocol.columns import Path, column_error, field_at, mentions
from deltasql.protocol.jsonlog import load_object
from deltasql.protocol.schema import StructType


def refuse_dependents(entry: TableEntry, snapshot: Snapshot, path: Path, what: str) -> None:
    """Refuse what an expression of the table would not survive."""
    constraints = {
        f"the CHECK constraint {name.removeprefix('delta.constraints.')!r}": text
        for name, text in snapshot.metadata.configuration.items()
        if name.startswith("delta.constraints.")
    }
    columns = {
        f"the {kind} of column {field.name!r}": str(field.metadata[mark])
        for mark, kind in (("delta.generationExpression", "generation expression"), ("delta.invariants", "invariant"))
        for field in all_fields(snapshot.structure)
        if mark in field.metadata
    }
    for owner, text in (constraints | columns).items():
        if mentions(_expression(text), path):
            raise column_error(
                path, f"of table {entry.name!r} cannot be {what}: {owner} names it", f"drop {owner} first"
            )


def _expression(text: str) -> str:
    """The SQL of an invariant lies in JSON; a constraint is SQL itself."""
    if not text.startswith("{"):
        return text
    held: Any = load_object(text, source="delta.invariants").get("expression")
    return str(cast("dict[str, Any]", held).get("expression")) if isinstance(held, dict) else text


def clustering_columns(services: Services, entry: TableEntry, snapshot: Snapshot) -> list[Path]:
    """By physical names, as the domain has them."""
    for domain in services.reader.domains(entry, snapshot.version):
        if domain.domain == "delta.clustering":
            listed = load_object(domain.configuration, source=domain.domain).get("clusteringColumns", [])
            return [tuple(names) for names in listed]
    return []


def is_field(schema: StructType, path: Path) -> bool:
    """Whether a path that exists ends at a field, not at an element of an array or map."""
    try:
        field_at(schema, path)
    except SchemaError:
        return False
    return True


def is_within(path: Path, outer: Path) -> bool:
    return [name.casefold() for name in path[: len(outer)]] == [name.casefold() for name in outer]
