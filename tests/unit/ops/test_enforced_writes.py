"""Writes to a table with rules: rows are completed and checked before any file is written."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from client_samples import MONDAY, dump, ids, objects, rows
from deltasql.client import Lake, Table
from deltasql.errors import InvalidInputError, UnsupportedError
from deltasql.ops.properties import draft_add_constraint, draft_drop_constraint
from deltasql.protocol.actions import Metadata, TableProtocol

pytestmark = pytest.mark.unit


@pytest.fixture
def positive(table: Table) -> Table:
    """The table with a constraint."""
    table._services.commit([draft_add_constraint(table._entry, table.snapshot(), "positive", "id > 0")])
    return table


def test_a_row_that_breaks_a_constraint_leaves_no_trace(positive: Table, ledger: str) -> None:
    before = dump(ledger), objects(positive)
    bad = rows((7, MONDAY, "x"), (0, MONDAY, "y"))
    for write in (positive.append, positive.overwrite, lambda data: positive.overwrite(data, where="id < 100")):
        with pytest.raises(InvalidInputError, match="1 of 2 rows break the constraint 'positive'"):
            write(bad)
    assert (dump(ledger), objects(positive)) == before
    assert positive.append(rows((7, MONDAY, "x"))).version == 3
    assert positive.delete("id = 7").version == 4
    assert ids(positive.to_arrow()) == [1, 2, 3, 4]


def test_in_a_transaction_too(lake: Lake, positive: Table) -> None:
    with pytest.raises(InvalidInputError, match="'positive'"), lake.transaction() as transaction:
        transaction.table(positive.name).append(rows((-1, MONDAY, "x")))
    assert positive.version == 2


def test_a_dropped_constraint_is_asked_for_no_longer(positive: Table) -> None:
    draft = draft_drop_constraint(positive._entry, positive.snapshot(), "positive")
    assert draft is not None
    positive._services.commit([draft])
    assert positive.append(rows((-1, MONDAY, "x"))).version == 4


def change(table: Table, mark: str, value: object, feature: str) -> None:
    """Give the column `name` a rule, as another writer would."""
    metadata = table.snapshot().metadata
    schema = metadata.schema_string.replace(
        '"name":"name","type":"string","nullable":true,"metadata":{}',
        f'"name":"name","type":"string","nullable":true,"metadata":{{"{mark}":{msgspec.json.encode(value).decode()}}}',
    )
    assert schema != metadata.schema_string
    changed: Metadata = msgspec.structs.replace(metadata, schema_string=schema)
    features = (*(table.snapshot().protocol.writer_features or ()), feature)
    table.commit([changed, TableProtocol(min_reader_version=1, min_writer_version=7, writer_features=features)])


def test_defaults_and_generated_columns_may_be_left_out(table: Table) -> None:
    lacking = pa.table({"id": [8], "day": [MONDAY]})
    change(table, "CURRENT_DEFAULT", "'none'", "allowColumnDefaults")
    table.append(lacking)
    assert table.to_arrow(filter="id = 8").to_pylist() == [{"id": 8, "day": MONDAY, "name": "none"}]


def test_generated_columns_are_worked_out(table: Table) -> None:
    change(table, "delta.generationExpression", "CAST(id AS STRING)", "generatedColumns")
    table.append(pa.table({"id": [8], "day": [MONDAY]}))
    assert table.to_arrow(filter="id = 8").to_pylist() == [{"id": 8, "day": MONDAY, "name": "8"}]
    with pytest.raises(InvalidInputError, match="generated column 'name'"):
        table.append(rows((9, MONDAY, "x")))


def test_a_column_that_counts_by_itself_is_left_to_others(table: Table) -> None:
    change(table, "delta.identity.start", 1, "identityColumns")
    with pytest.raises(UnsupportedError, match="identityColumns"):
        table.append(rows((9, MONDAY, "x")))
