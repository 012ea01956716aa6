"""Changing columns: every version reads as it was, and what cannot be done says what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from alter_samples import alter, alter_looking, append_merging, draft_merging, rows_of
from client_samples import MONDAY, TUESDAY, ids
from deltasql.client import Lake, Table
from deltasql.errors import ConflictError, DeltaSqlError, InvalidInputError, SchemaError, UnsupportedError
from deltasql.ledger.contracts import CommitDraft
from deltasql.ops.alter import (
    draft_add_columns,
    draft_change_column,
    draft_drop_columns,
    draft_enable_feature,
    draft_rename_column,
    draft_widen_column,
    evolved,
)
from deltasql.protocol.actions import DomainMetadata, TableProtocol
from deltasql.protocol.column_paths import physical_name
from deltasql.protocol.predicate import parse
from deltasql.protocol.rows import evaluate
from deltasql.protocol.schema import PrimitiveType, StructField, StructType, schema_string

pytestmark = pytest.mark.unit


def names(table: Table, version: int | None = None) -> list[str]:
    return table.snapshot(version).schema.names


def parameters(table: Table) -> dict[str, Any]:
    return dict(table.history(1)[0].commit_info["operationParameters"])


def configure(table: Table, **configuration: str) -> None:
    """What deltasql itself would not set."""
    snapshot = table.snapshot()
    metadata = msgspec.structs.replace(
        snapshot.metadata, configuration={**snapshot.metadata.configuration, **configuration}
    )
    table._services.commit([CommitDraft(table=table.name, actions=[metadata], operation="SET TBLPROPERTIES")])


def describe(table: Table, schema: StructType) -> None:
    metadata = msgspec.structs.replace(table.snapshot().metadata, schema_string=schema_string(schema))
    table._services.commit([CommitDraft(table=table.name, actions=[metadata], operation="CHANGE COLUMN")])


def refused(kind: type[DeltaSqlError], change: Callable[[], object]) -> Any:
    with pytest.raises(kind) as caught:
        change()
    assert caught.value.hint
    return caught.value


def test_rows_from_before_a_column_was_added_have_null_there(table: Table) -> None:
    before = table.to_arrow()
    version = alter(
        table,
        draft_add_columns,
        pa.schema([("note", pa.string()), ("size", pa.struct([("w", pa.int32())]))]),
        after="id",
        comments={"note": "why"},
    )
    assert names(table) == ["id", "note", "size", "day", "name"]
    assert table.snapshot().structure.fields[1].metadata == {"comment": "why"}
    fresh = {"id": 9, "note": "new", "size": {"w": 1}, "day": MONDAY, "name": "z"}
    table.append(pa.Table.from_pylist([fresh], schema=table.snapshot().schema))
    found = rows_of(table.to_arrow(), "id")
    assert found[-1] == fresh
    assert found[0] == {"id": 1, "note": None, "size": None, "day": MONDAY, "name": "a"}
    assert table.to_arrow(version=version - 1).sort_by("id").equals(before.sort_by("id"))
    assert ids(table.to_arrow(filter="note IS NULL")) == [1, 2, 3, 4]
    assert ids(table.to_arrow(filter="size.w = 1")) == [9]


def test_commit_info_says_what_delta_spark_would(table: Table) -> None:
    alter(table, draft_add_columns, pa.schema([("s", pa.struct([("x", pa.int32())]))]))
    alter(table, draft_add_columns, pa.schema([("y", pa.int64()), ("z", pa.int64())]), within="s", first=True)
    listed = (
        '[{"column":{"name":"s.y","type":"long","nullable":true,"metadata":{}},"position":"FIRST"},'
        '{"column":{"name":"s.z","type":"long","nullable":true,"metadata":{}},"position":"AFTER y"}]'
    )
    assert parameters(table) == {"columns": listed}
    assert table.history(1)[0].operation == "ADD COLUMNS"
    alter(table, draft_rename_column, "S.x", "dotted.name", column_mapping=True)
    assert parameters(table) == {"oldColumnPath": "s.x", "newColumnPath": "s.`dotted.name`"}
    alter_looking(table, draft_drop_columns, ["s.`dotted.name`", "name"])
    assert parameters(table) == {"columns": '["s.`dotted.name`","name"]'}


def test_a_renamed_column_is_found_in_old_files_and_new_ones(table: Table) -> None:
    error = refused(UnsupportedError, lambda: alter(table, draft_rename_column, "name", "label"))
    assert error.field == "column_mapping"
    version = alter(table, draft_rename_column, "name", "label", column_mapping=True)
    assert table.snapshot().protocol == TableProtocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("columnMapping",),
        writer_features=("inCommitTimestamp", "invariants", "columnMapping"),
    )
    table.append(pa.table({"id": [5], "day": [TUESDAY], "label": ["e"]}))
    found = table.to_arrow().sort_by("id")
    assert found.column("label").to_pylist() == ["a", "b", None, "d", "e"]
    assert names(table, version - 1) == ["id", "day", "name"]
    assert ids(table.to_arrow(filter="label = 'e'")) == [5]
    # The old name is free, and names another column now.
    alter(table, draft_add_columns, pa.schema([("name", pa.int64())]))
    assert table.to_arrow().column("name").null_count == 5
    table.append(pa.table({"id": [6], "day": [TUESDAY], "label": ["f"], "name": [7]}))
    assert rows_of(table.to_arrow(), "id")[-1] == {"id": 6, "day": TUESDAY, "label": "f", "name": 7}


def test_actions_of_a_mapped_table_use_physical_names(table: Table) -> None:
    alter(table, draft_rename_column, "day", "date", column_mapping=True)
    alter(table, draft_add_columns, pa.schema([("s", pa.struct([("x", pa.int64())]))]))
    known = {add.path for add in table.snapshot().adds()}
    assert table.snapshot().metadata.partition_columns == ("date",)
    table.append(
        pa.Table.from_pylist([{"id": 8, "date": TUESDAY, "s": {"x": 5}, "name": "h"}], schema=table.snapshot().schema)
    )
    (add,) = [add for add in table.snapshot().adds() if add.path not in known]
    assert dict(add.partition_values) == {"day": "2026-11-17"}
    outer = table.snapshot().structure.field("s")
    assert outer is not None
    assert isinstance(outer.type, StructType)
    inner = f'"{physical_name(outer)}":{{"{physical_name(outer.type.fields[0])}":5}}'
    assert add.stats is not None
    assert inner in add.stats
    facts = table.snapshot().facts(add)
    assert facts.partition_values == {"date": TUESDAY}
    assert facts.max_values["s"] == {"x": 5}
    # Files are chosen by these, and rewritten under them.
    table.delete("s.x = 5 OR id = 1")
    assert ids(table.to_arrow()) == [2, 3, 4]
    table.overwrite(table.to_arrow(filter="date = '2026-11-16'"), where="date = '2026-11-16'")
    assert ids(table.to_arrow()) == [2, 3, 4]
    assert all(set(add.partition_values) == {"day"} for add in table.snapshot().adds())


def test_a_dropped_column_does_not_come_back_with_its_name(table: Table) -> None:
    assert refused(UnsupportedError, lambda: alter_looking(table, draft_drop_columns, ["name"])).field == (
        "column_mapping"
    )
    version = alter_looking(table, draft_drop_columns, ["name"], column_mapping=True)
    assert names(table) == ["id", "day"]
    assert names(table, version - 1) == ["id", "day", "name"]
    assert table.to_arrow(version=version - 1).column("name").null_count == 1
    alter(table, draft_add_columns, pa.schema([("name", pa.string())]))
    assert table.to_arrow().column("name").null_count == 4


def test_what_must_stay_is_not_dropped(lake: Lake, table: Table) -> None:
    for column, field in (("day", "day"), ("nobody", "nobody")):
        change = partial(alter_looking, table, draft_drop_columns, [column], column_mapping=True)
        error = refused(SchemaError, change)
        assert error.field == field
    refused(InvalidInputError, lambda: alter_looking(table, draft_drop_columns, "name", column_mapping=True))
    single = lake.create_table("single", pa.schema([("only", pa.int64())]))
    assert refused(
        SchemaError, lambda: alter_looking(single, draft_drop_columns, ["only"], column_mapping=True)
    ).field == ("only")


def test_a_clustering_column_is_not_dropped_but_may_be_renamed(table: Table) -> None:
    domain = DomainMetadata(
        domain="delta.clustering",
        configuration='{"clusteringColumns":[["name"]],"domainName":"delta.clustering"}',
        removed=False,
    )
    table._services.commit([CommitDraft(table=table.name, actions=[domain], operation="CLUSTER BY")])
    alter(table, draft_rename_column, "name", "label", column_mapping=True)
    error = refused(SchemaError, lambda: alter_looking(table, draft_drop_columns, ["label"]))
    assert error.field == "label"
    assert "clustering" in error.message


@pytest.mark.parametrize("what", ["rename", "drop", "widen"])
@pytest.mark.parametrize("owner", ["constraint", "generated", "invariant"])
def test_what_an_expression_names_stays_as_it_is(lake: Lake, owner: str, what: str) -> None:
    table = lake.create_table("t", pa.schema([("n", pa.int32()), ("other", pa.int32()), ("made", pa.int32())]))
    mark = {
        "generated": {"delta.generationExpression": "N + 1"},
        "invariant": {"delta.invariants": '{"expression":{"expression":"n > 0"}}'},
    }.get(owner)
    if mark is None:
        configure(table, **{"delta.constraints.positive": "n > 0 AND 'other' <> ''"})
    else:
        *fields, last = table.snapshot().structure.fields
        describe(table, StructType((*fields, StructField(last.name, last.type, True, mark))))

    def change(column: str) -> int:
        if what == "rename":
            return alter(table, draft_rename_column, column, "fresh", column_mapping=True)
        if what == "drop":
            return alter_looking(table, draft_drop_columns, [column], column_mapping=True)
        return alter(table, draft_widen_column, column, "long", type_widening=True)

    error = refused(SchemaError, lambda: change("n"))
    assert error.field == "n"
    assert {"constraint": "positive", "generated": "made", "invariant": "made"}[owner] in error.message
    change("other")


def test_a_wider_column_reads_old_files_and_takes_larger_values(lake: Lake) -> None:
    shape = pa.schema([("n", pa.int32()), ("l", pa.list_(pa.int16())), ("p", pa.int32())])
    table = lake.create_table("t", shape, partition_by=["p"])
    table.append(pa.Table.from_pylist([{"n": 1, "l": [1, None], "p": 1}], schema=shape))
    assert refused(UnsupportedError, lambda: alter(table, draft_widen_column, "n", "long")).field == "type_widening"
    alter(table, draft_widen_column, "n", "long", type_widening=True)
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.reader_features) == (3, ("typeWidening",))
    alter(table, draft_widen_column, "l.element", PrimitiveType("integer"))
    assert parameters(table)["column"] == '{"name":"l.element","type":"integer","nullable":true,"metadata":{}}'
    alter(table, draft_widen_column, "p", "decimal(12,2)")
    n, many, _ = table.snapshot().structure.fields
    assert n.metadata["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    assert many.metadata["delta.typeChanges"] == [{"fromType": "short", "toType": "integer", "fieldPath": "element"}]
    table.append(pa.Table.from_pylist([{"n": 2**40, "l": [2**20], "p": 2}], schema=table.snapshot().schema))
    found = rows_of(table.to_arrow(), "n")
    assert [(row["n"], row["l"], int(row["p"])) for row in found] == [(1, [1, None], 1), (2**40, [2**20], 2)]
    assert table.to_arrow(filter="n < 5 AND p = 1").num_rows == 1
    assert table.to_arrow(version=1).schema.field("n").type == pa.int32()
    # What is rewritten is written in the wide type.
    table.delete("l IS NULL OR n = 2")
    table.overwrite(table.to_arrow())
    assert rows_of(table.to_arrow(), "n") == found


def test_types_change_only_as_the_protocol_allows(table: Table) -> None:
    for column, wider in (("id", "integer"), ("id", "double"), ("name", "binary"), ("day", "timestamp")):
        change = partial(alter, table, draft_widen_column, column, wider, type_widening=True)
        error = refused(SchemaError, change)
        assert error.field == column
    # Allowed, but not without a feature that readers must know, too.
    error = refused(
        UnsupportedError, lambda: alter(table, draft_widen_column, "day", "timestamp_ntz", type_widening=True)
    )
    assert "timestampNtz" in error.message
    alter(table, draft_enable_feature, "timestampNtz")
    alter(table, draft_widen_column, "day", "timestamp_ntz", type_widening=True)
    days = table.to_arrow().sort_by("id").column("day").to_pylist()
    assert [day and day.date() for day in days] == [MONDAY, MONDAY, TUESDAY, None]


def test_a_column_may_get_a_comment_another_place_and_be_null(table: Table) -> None:
    alter(table, draft_change_column, "id", nullable=True, comment="the key", after="name")
    assert names(table) == ["day", "name", "id"]
    changed = StructField("id", PrimitiveType("long"), True, {"comment": "the key"})
    assert table.snapshot().structure.fields[2] == changed
    assert parameters(table)["position"] == "AFTER name"
    table.append(pa.table({"day": [MONDAY], "name": ["n"], "id": pa.array([None], pa.int64())}))
    assert table.to_arrow().column("id").null_count == 1
    assert refused(SchemaError, lambda: alter(table, draft_change_column, "id", nullable=False)).field == "id"
    assert refused(SchemaError, lambda: alter(table, draft_change_column, "id", nullable=True)).field == "id"


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (pa.schema([pa.field("n", pa.int64(), nullable=False)]), {}),
        (pa.schema([("NAME", pa.int64())]), {}),
        (pa.schema([("bad name", pa.int64())]), {}),
        (pa.schema([("v", pa.uint8())]), {}),
        (StructType((StructField("v", PrimitiveType("variant")),)), {}),
        (StructType((StructField("v", PrimitiveType("long"), True, {"CURRENT_DEFAULT": "1"}),)), {}),
        (pa.schema([("n", pa.int64())]), {"within": "id"}),
        (pa.schema([("n", pa.int64())]), {"comments": {"m": "?"}}),
        (pa.schema([]), {}),
    ],
)
def test_columns_that_cannot_be_are_not_added(table: Table, columns: Any, options: dict[str, Any]) -> None:
    before = table.version
    refused(SchemaError, lambda: alter(table, draft_add_columns, columns, **options))
    assert table.version == before


def test_with_mapping_any_name_will_do(table: Table) -> None:
    alter(table, draft_enable_feature, "columnMapping")
    alter(table, draft_add_columns, pa.schema([("bad name, {really}", pa.int64())]))
    alter(table, draft_rename_column, "name", "also = bad")
    table.append(
        pa.Table.from_pylist(
            [{"id": 9, "day": MONDAY, "also = bad": "x", "bad name, {really}": 3}], schema=table.snapshot().schema
        )
    )
    assert rows_of(table.to_arrow(), "id")[-1] == {"id": 9, "day": MONDAY, "also = bad": "x", "bad name, {really}": 3}


def test_columns_named_for_statistics_are_renamed_and_dropped_there_too(lake: Lake) -> None:
    shape = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("z", pa.int64())])
    table = lake.create_table("t", shape, properties={"delta.dataSkippingStatsColumns": "a,s.x,z"})
    alter(table, draft_rename_column, "s", "t", column_mapping=True)
    alter(table, draft_rename_column, "t.x", "w")
    alter_looking(table, draft_drop_columns, ["z"])
    assert table.snapshot().metadata.configuration["delta.dataSkippingStatsColumns"] == "a,t.w"
    table.append(pa.Table.from_pylist([{"a": 1, "t": {"w": 2, "y": 3}}], schema=table.snapshot().schema))
    (add,) = table.snapshot().adds()
    assert add.stats == (
        '{"numRecords":1,"minValues":{"a":1,"s":{"x":2}},"maxValues":{"a":1,"s":{"x":2}},'
        '"nullCount":{"a":0,"s":{"x":0}}}'
    )
    alter_looking(table, draft_drop_columns, ["a", "t.w"])
    assert "delta.dataSkippingStatsColumns" not in table.snapshot().metadata.configuration


def test_features_are_switched_on_once(table: Table) -> None:
    for feature in ("columnMapping", "typeWidening", "timestampNtz"):
        alter(table, draft_enable_feature, feature)
        assert draft_enable_feature(table._entry, table.snapshot(), feature) is None
    assert refused(UnsupportedError, lambda: alter(table, draft_enable_feature, "deletionVectors")).field == "feature"
    assert set(table.snapshot().protocol.reader_features or ()) == {"columnMapping", "typeWidening", "timestampNtz"}
    assert ids(table.to_arrow()) == [1, 2, 3, 4]


@pytest.mark.parametrize("mapped", [False, True])
def test_appended_data_brings_its_columns_along(table: Table, mapped: bool) -> None:
    if mapped:
        alter(table, draft_rename_column, "name", "label", column_mapping=True)
    data = pa.Table.from_pylist([{"more": {"deep": [1.5]}, "id": 5, "extra": "x"}])
    version = append_merging(table, data)
    assert names(table)[-2:] == ["more", "extra"]
    assert rows_of(table.to_arrow(), "id")[-1] == {
        **dict.fromkeys(names(table)),
        "id": 5,
        "more": {"deep": [1.5]},
        "extra": "x",
    }
    kinds = [type(action).__name__ for action in _actions(table, version)]
    assert kinds == ["CommitInfo", "Metadata", "AddFile"]
    # Nothing new: nothing but the file.
    append_merging(table, pa.table({"id": [6]}))
    assert [type(action).__name__ for action in _actions(table, version + 1)] == ["CommitInfo", "AddFile"]
    append_merging(table, pa.Table.from_pylist([{"id": 7, "more": {"wide": True}}]))
    assert rows_of(table.to_arrow(), "id")[-1]["more"] == {"deep": None, "wide": True}
    error = refused(SchemaError, lambda: append_merging(table, pa.table({"day": [MONDAY]})))
    assert error.field == "id"


def test_appended_data_widens_only_where_the_table_allows_it(lake: Lake) -> None:
    table = lake.create_table("t", pa.schema([("n", pa.int32())]))
    append_merging(table, pa.table({"n": pa.array([1], pa.int64())}))
    assert table.snapshot().schema.field("n").type == pa.int32()
    refused(SchemaError, lambda: append_merging(table, pa.table({"n": [2**40]})))
    alter(table, draft_enable_feature, "typeWidening")
    append_merging(table, pa.table({"n": [2**40]}))
    assert table.snapshot().structure.fields[0].metadata["delta.typeChanges"] == [
        {"fromType": "integer", "toType": "long"}
    ]
    assert sorted(table.to_arrow().column("n").to_pylist()) == [1, 2**40]


def test_appended_data_does_not_widen_what_something_depends_on(lake: Lake) -> None:
    inner = pa.struct([("x", pa.int16())])
    table = lake.create_table("t", pa.schema([("n", pa.int32()), ("s", inner), ("made", pa.int32())]))
    alter(table, draft_enable_feature, "typeWidening")
    configure(table, **{"delta.constraints.positive": "s.x > 0"})
    *fields, last = table.snapshot().structure.fields
    describe(table, StructType((*fields, StructField(last.name, last.type, True, {"delta.generationExpression": "1"}))))
    wider = {"s": pa.struct([("x", pa.int64())]), "made": pa.int64()}
    for name, path in (("s", "s.x"), ("made", "made")):
        error = refused(SchemaError, partial(evolved, table._entry, table.snapshot(), pa.schema([(name, wider[name])])))
        assert error.field == path
    schema = evolved(table._entry, table.snapshot(), pa.schema([("n", pa.int64()), ("s", inner)])).schema_string
    assert '"name":"n","type":"long"' in schema


def _actions(table: Table, version: int) -> list[object]:
    (commit,) = table._services.reader.commits(table._entry, version, version)
    return list(commit.actions)


def test_of_two_changes_of_columns_one_stands(table: Table) -> None:
    entry, stale = table._entry, table.snapshot()
    later = draft_add_columns(entry, stale, pa.schema([("b", pa.int64())]))
    merging = draft_merging(table, pa.table({"id": [5], "c": [1]}))
    alter(table, draft_add_columns, pa.schema([("a", pa.int64())]))
    for draft in (later, merging):
        with pytest.raises(ConflictError) as caught:
            table._services.commit([draft])
        assert caught.value.conflict.reason == "metadata_changed"
    # Rows that came meanwhile are no reason against a change of columns.
    stale = table.snapshot()
    table.append(pa.Table.from_pylist([{"id": 5, "day": MONDAY, "name": "e", "a": 1}], schema=stale.schema))
    table._services.commit([draft_rename_column(entry, stale, "name", "label", column_mapping=True)])
    assert names(table) == ["id", "day", "label", "a"]
    assert ids(table.to_arrow(filter="label = 'e'")) == [5]


WIDENED: list[tuple[pa.DataType, list[object], str, list[object]]] = [
    (pa.int8(), [-128, 0, 7], "long", [2**40, -(2**40), 7]),
    (pa.int32(), [-(2**31), 3, 2**31 - 1], "double", [0.5, 3.0, 1e300]),
    (pa.int32(), [-5, 3, 2**31 - 1], "decimal(12,2)", [Decimal("3.00"), Decimal("3.25"), Decimal("-0.01")]),
    (pa.int64(), [-(2**63), 3, 2**63 - 1], "decimal(20,0)", [Decimal(3), Decimal(10**19)]),
    (pa.float32(), [0.7, 0.1, 3.5, -0.3], "double", [0.7, 0.1, -0.3]),
    (pa.decimal128(4, 2), [Decimal("0.70"), Decimal("-12.34")], "decimal(20,4)", [Decimal("0.7001"), Decimal("0.7")]),
    (pa.date32(), [date(1960, 1, 1), MONDAY], "timestamp_ntz", [datetime.fromisoformat("2026-11-16T01:00")]),
]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(("narrow", "old", "wide", "new"), WIDENED, ids=lambda value: str(value)[:20])
def test_a_filter_finds_narrow_values_and_wide_ones(
    lake: Lake, narrow: pa.DataType, old: list[object], wide: str, new: list[object], mapped: bool
) -> None:
    table = lake.create_table("t", pa.schema([("v", narrow)]))
    # A file for each value, so that every bound counts.
    for value in old:
        table.append(pa.table({"v": pa.array([value], narrow)}))
    if mapped:
        alter(table, draft_rename_column, "v", "w", column_mapping=True)
        alter(table, draft_rename_column, "w", "v")
    alter(table, draft_enable_feature, "timestampNtz")
    alter(table, draft_widen_column, "v", wide, type_widening=True)
    kind = table.snapshot().schema.field("v").type
    for value in new:
        table.append(pa.table({"v": pa.array([value], kind)}))
    everything = table.to_arrow()
    assert everything.num_rows == len(old) + len(new)
    for value in [*old, *new, *everything.column("v").to_pylist()]:
        for operator in ("<", "<=", "=", ">=", ">"):
            text = f"v {operator} {literal(value)}"
            truth = everything.filter(evaluate(parse(text, table.snapshot().structure), everything))
            assert table.to_arrow(filter=text).sort_by("v").equals(truth.sort_by("v")), text
            assert table.snapshot().files(text).num_rows >= truth.num_rows, text
    # What is deleted without a look into the files must be decided by the same bounds.
    text = f"v >= {literal(everything.column('v')[0].as_py())}"
    gone = everything.filter(evaluate(parse(text, table.snapshot().structure), everything)).num_rows
    table.delete(text)
    assert table.to_arrow().num_rows == everything.num_rows - gone


def literal(value: object) -> str:
    match value:
        case float():
            return f"{value!r}D"
        case datetime():
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value}BD"
        case _:
            return str(value)
