"""Properties and constraints of a table that is there: what is committed, what is refused, who loses a race."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from client_samples import MONDAY, rows
from deltasql.client import Lake, Table
from deltasql.errors import (
    ConflictError,
    DeltaSqlError,
    InvalidInputError,
    NotFoundError,
    PredicateError,
    SchemaError,
    TableExistsError,
    UnsupportedError,
)
from deltasql.ledger.contracts import CommitDraft
from deltasql.ops.properties import (
    draft_add_constraint,
    draft_drop_constraint,
    draft_set_properties,
    draft_unset_properties,
)
from deltasql.ops.snapshot import Snapshot
from deltasql.protocol.actions import Metadata, TableProtocol
from deltasql.protocol.properties import IN_COMMIT_TIMESTAMPS

pytestmark = pytest.mark.unit

ENABLED = "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"


def commit(table: Table, draft: CommitDraft | None) -> int:
    assert draft is not None
    return table._services.commit([draft])[0].version


def set_properties(table: Table, snapshot: Snapshot | None = None, **properties: str) -> CommitDraft:
    named = {f"delta.{name}": value for name, value in properties.items()}
    return draft_set_properties(table._entry, snapshot or table.snapshot(), named)


def add(table: Table, name: str, expression: str, snapshot: Snapshot | None = None) -> CommitDraft:
    return draft_add_constraint(table._entry, snapshot or table.snapshot(), name, expression)


def last(table: Table) -> Mapping[str, Any]:
    return table.history(1)[0].commit_info


def bare(lake: Lake, **properties: str) -> Table:
    """A table as older writers make them: versions, no names of features, no in-commit timestamps."""
    given = {IN_COMMIT_TIMESTAMPS: "false", **properties}
    return lake.create_table("bare", pa.schema([("id", pa.int64())]), properties=given)


class TestSet:
    def test_new_values_are_one_commit_and_others_stay(self, table: Table) -> None:
        before = table.snapshot()
        properties = {"delta.checkpointInterval": "50", "team": "ann"}
        assert commit(table, draft_set_properties(table._entry, before, properties)) == 2
        after = table.snapshot()
        assert after.metadata.configuration == {**before.metadata.configuration, **properties}
        assert msgspec.structs.replace(after.metadata, configuration={}) == msgspec.structs.replace(
            before.metadata, configuration={}
        )
        assert after.protocol == before.protocol
        assert after.files().equals(before.files())
        info = last(table)
        assert info["operation"] == "SET TBLPROPERTIES"
        assert json.loads(info["operationParameters"]["properties"]) == properties
        assert info["isBlindAppend"] is False

    def test_what_a_property_needs_is_added_to_the_protocol(self, table: Table) -> None:
        assert table.snapshot().protocol.writer_features == ("inCommitTimestamp", "invariants")
        commit(table, set_properties(table, appendOnly="true"))
        assert set(table.snapshot().protocol.writer_features or ()) == {"appendOnly", "inCommitTimestamp", "invariants"}
        with pytest.raises(UnsupportedError, match="append-only"):
            table.delete("id = 1")
        commit(table, set_properties(table, appendOnly="false"))
        assert table.delete("id = 1").version == 4

    def test_versions_that_promise_it_already_stay(self, lake: Lake) -> None:
        table = bare(lake)
        (only,) = set_properties(table, appendOnly="true").actions
        assert isinstance(only, Metadata)
        assert table.snapshot().protocol == TableProtocol(min_reader_version=1, min_writer_version=2)

    def test_timestamps_of_their_own_begin_with_a_note_of_when(self, lake: Lake) -> None:
        table = bare(lake)
        table.append(pa.table({"id": [1]}))
        stale = table.snapshot()
        table.append(pa.table({"id": [2]}))
        # Worked out for version 2, committed as version 3.
        assert commit(table, set_properties(table, stale, enableInCommitTimestamps="true")) == 3
        state, info = table.snapshot(), last(table)
        assert "inCommitTimestamp" in (state.protocol.writer_features or ())
        version, timestamp = (state.metadata.configuration[name] for name in ENABLED)
        assert (version, int(timestamp)) == ("3", info["inCommitTimestamp"])
        assert state.timestamp == info["inCommitTimestamp"]
        table.append(pa.table({"id": [3]}))
        assert last(table)["inCommitTimestamp"] > info["inCommitTimestamp"]
        assert all("inCommitTimestamp" not in each.commit_info for each in table.history()[2:])

    def test_timestamps_that_are_on_are_left_as_they_are(self, table: Table) -> None:
        commit(table, set_properties(table, enableInCommitTimestamps="true"))
        assert not set(ENABLED) & set(table.snapshot().metadata.configuration)

    @pytest.mark.parametrize(
        ("properties", "error", "field"),
        [
            ({}, InvalidInputError, "properties"),
            ({"delta.nonsense": "1"}, UnsupportedError, "properties.delta.nonsense"),
            ({"delta.enableChangeDataFeed": "true"}, UnsupportedError, "properties.delta.enableChangeDataFeed"),
            ({"delta.enableDeletionVectors": "true"}, UnsupportedError, "properties.delta.enableDeletionVectors"),
            ({"delta.enableRowTracking": "true"}, UnsupportedError, "properties.delta.enableRowTracking"),
            ({"delta.checkpointPolicy": "v2"}, UnsupportedError, "properties.delta.checkpointPolicy"),
            ({"delta.feature.appendOnly": "supported"}, UnsupportedError, "properties.delta.feature.appendOnly"),
            ({"delta.minReaderVersion": "3"}, UnsupportedError, "properties.delta.minReaderVersion"),
            ({"delta.appendOnly": "yes"}, InvalidInputError, "properties.delta.appendOnly"),
            ({"delta.checkpointInterval": "0"}, InvalidInputError, "properties.delta.checkpointInterval"),
            ({"delta.logRetentionDuration": "2 months"}, InvalidInputError, "properties.delta.logRetentionDuration"),
            ({"delta.constraints.c": "id > 0"}, InvalidInputError, "properties.delta.constraints.c"),
            ({"Delta.Constraints.c": "id > 0"}, InvalidInputError, "properties.Delta.Constraints.c"),
            ({"owner": "ann"}, InvalidInputError, "properties.owner"),
            ({"delta.dataSkippingStatsColumns": "id,nope"}, SchemaError, "properties.delta.dataSkippingStatsColumns"),
            ({"delta.dataSkippingStatsColumns": "id.x"}, SchemaError, "properties.delta.dataSkippingStatsColumns"),
            ({"a": 1}, InvalidInputError, "properties"),
        ],
    )
    def test_what_is_refused_names_the_property(
        self, table: Table, properties: dict[str, str], error: type[DeltaSqlError], field: str
    ) -> None:
        with pytest.raises(error) as refused:
            draft_set_properties(table._entry, table.snapshot(), properties)
        assert type(refused.value) is error
        assert refused.value.field == field

    def test_an_append_meanwhile_does_no_harm_and_another_change_does(self, table: Table) -> None:
        stale = table.snapshot()
        table.append(rows((5, MONDAY, "e")))
        assert commit(table, set_properties(table, stale, checkpointInterval="5")) == 3
        with pytest.raises(ConflictError, match="changed meanwhile"):
            commit(table, set_properties(table, stale, checkpointInterval="6"))


class TestUnset:
    def unset(self, table: Table, *names: str, if_exists: bool = False) -> CommitDraft | None:
        return draft_unset_properties(table._entry, table.snapshot(), names, if_exists=if_exists)

    def test_it_takes_away_what_is_named(self, table: Table) -> None:
        commit(table, draft_set_properties(table._entry, table.snapshot(), {"a": "1", "delta.appendOnly": "true"}))
        protocol = table.snapshot().protocol
        assert commit(table, self.unset(table, "a", "delta.appendOnly")) == 3
        assert table.snapshot().metadata.configuration == {IN_COMMIT_TIMESTAMPS: "true"}
        assert table.snapshot().protocol == protocol
        info = last(table)
        assert info["operation"] == "UNSET TBLPROPERTIES"
        assert info["operationParameters"] == {"properties": '["a","delta.appendOnly"]', "ifExists": False}

    def test_what_is_not_there_is_an_error_unless_told(self, table: Table) -> None:
        with pytest.raises(NotFoundError, match="no property 'a'"):
            self.unset(table, "a")
        assert self.unset(table, "a", "b", if_exists=True) is None
        commit(table, draft_set_properties(table._entry, table.snapshot(), {"a": "1"}))
        draft = self.unset(table, "a", "b", if_exists=True)
        assert draft is not None
        assert draft.parameters == {"properties": '["a","b"]', "ifExists": True}

    def test_a_bad_value_can_be_taken_away_and_what_others_lean_on_cannot(self, table: Table) -> None:
        found = {
            "delta.checkpointInterval": "nonsense",
            "delta.enableChangeDataFeed": "true",
            "delta.columnMapping.mode": "none",
            "delta.constraints.c": "id > 0",
        }
        adopted = msgspec.structs.replace(table.snapshot().metadata, configuration=found)
        state = msgspec.structs.replace(table.snapshot().state, metadata=adopted)
        snapshot = Snapshot(table._services, table._entry, state)
        for name in ("delta.checkpointInterval", "delta.enableChangeDataFeed"):
            assert draft_unset_properties(table._entry, snapshot, [name]) is not None
        with pytest.raises(UnsupportedError):
            draft_unset_properties(table._entry, snapshot, ["delta.columnMapping.mode"])
        with pytest.raises(InvalidInputError, match="is a constraint"):
            draft_unset_properties(table._entry, snapshot, ["delta.constraints.c"])

    @pytest.mark.parametrize("names", [(), "delta.appendOnly"])
    def test_a_list_is_wanted(self, table: Table, names: Any) -> None:
        with pytest.raises(InvalidInputError, match="no list"):
            draft_unset_properties(table._entry, table.snapshot(), names)


class TestConstraints:
    def test_one_that_all_rows_satisfy_is_added(self, table: Table) -> None:
        assert commit(table, add(table, "Positive", " id > 0 ")) == 2
        state = table.snapshot()
        assert state.metadata.configuration["delta.constraints.positive"] == "id > 0"
        assert "checkConstraints" in (state.protocol.writer_features or ())
        info = last(table)
        assert (info["operation"], info["operationParameters"]) == (
            "ADD CONSTRAINT",
            {"name": "Positive", "expr": "id > 0"},
        )

    def test_older_protocols_go_up_by_a_version(self, lake: Lake) -> None:
        table = bare(lake)
        commit(table, add(table, "positive", "id > 0"))
        assert table.snapshot().protocol == TableProtocol(min_reader_version=1, min_writer_version=3)

    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("id < 4", "id = 4"),
            ("name IS NOT NULL", "name = null"),
            ("name <> 'a'", "name = "),
            ("day > '2000'", "day = null"),
        ],
    )
    def test_rows_that_are_there_must_satisfy_it(self, table: Table, expression: str, said: str) -> None:
        with pytest.raises(InvalidInputError, match="break the constraint 'c'") as refused:
            add(table, "c", expression)
        assert said in refused.value.message
        assert ".parquet" in refused.value.message
        assert table.version == 1

    def test_files_whose_statistics_tell_are_not_opened(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Snapshot, "rows", lambda *_: pytest.fail("a file was read"))
        add(table, "positive", "id > 0")
        add(table, "true", "TRUE")

    @pytest.mark.parametrize(
        ("name", "expression", "error"),
        [
            ("", "id > 0", InvalidInputError),
            ("a.b", "id > 0", InvalidInputError),
            ("1a", "id > 0", InvalidInputError),
            ("a\n", "id > 0", InvalidInputError),
            ("c", "id", PredicateError),
            ("c", "nope > 0", PredicateError),
            ("c", "abs(id) > 0", PredicateError),
            ("c", "", PredicateError),
            ("c", "NULL", InvalidInputError),
        ],
    )
    def test_what_cannot_be_one_is_refused(
        self, table: Table, name: str, expression: str, error: type[DeltaSqlError]
    ) -> None:
        with pytest.raises(error):
            add(table, name, expression)
        assert table.version == 1

    def test_a_name_stands_for_one_in_any_case(self, table: Table) -> None:
        commit(table, add(table, "c", "id > 0"))
        with pytest.raises(TableExistsError, match="'C' already: id > 0"):
            add(table, "C", "id > -1")

    def test_rows_added_meanwhile_would_have_had_to_be_looked_at(self, table: Table) -> None:
        draft = add(table, "c", "id < 5")
        table.append(rows((5, MONDAY, "e")))
        with pytest.raises(ConflictError):
            commit(table, draft)
        assert "delta.constraints.c" not in table.snapshot().metadata.configuration

    def test_rows_worked_out_before_it_do_not_slip_in(self, table: Table) -> None:
        from deltasql.ops.write import draft_append

        late = draft_append(table._services, table._entry, table.snapshot(), rows((-1, MONDAY, "e")))
        commit(table, add(table, "c", "id > 0"))
        with pytest.raises(ConflictError):
            commit(table, late)

    def test_one_can_be_dropped(self, table: Table) -> None:
        drop: Callable[..., CommitDraft | None] = lambda name, **options: draft_drop_constraint(  # noqa: E731
            table._entry, table.snapshot(), name, **options
        )
        commit(table, add(table, "c", "id > 0"))
        assert commit(table, drop("C")) == 3
        assert "delta.constraints.c" not in table.snapshot().metadata.configuration
        info = last(table)
        assert (info["operation"], info["operationParameters"]) == (
            "DROP CONSTRAINT",
            {"name": "C", "expr": "id > 0", "existed": "true"},
        )
        with pytest.raises(NotFoundError, match="no constraint 'c'"):
            drop("c")
        assert drop("c", if_exists=True) is None


def test_a_table_with_features_unknown_here_is_left_alone(table: Table) -> None:
    state = table.snapshot().state
    strange = TableProtocol(min_reader_version=1, min_writer_version=7, writer_features=("icebergCompatV2", "x"))
    snapshot = Snapshot(table._services, table._entry, msgspec.structs.replace(state, protocol=strange))
    with pytest.raises(UnsupportedError, match="icebergCompatV2, x"):
        draft_set_properties(table._entry, snapshot, {"a": "1"})
