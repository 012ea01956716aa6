"""Properties of skipping: whatever wrote the statistics of some rows, they never contradict those rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.protocol.actions import AddFile
from deltasql.protocol.predicate import columns, parse
from deltasql.protocol.rows import evaluate
from deltasql.protocol.skipping import facts_from, matches_all, may_match
from file_samples import combined, conditions, files
from predicate_samples import FILE_SCHEMA as SCHEMA
from predicate_samples import PARTITIONED

pytestmark = pytest.mark.unit


@settings(max_examples=200, deadline=None)
@given(files(), st.lists(combined(conditions()), min_size=1, max_size=8))
def test_facts_never_contradict_the_rows(file: tuple[pa.Table, AddFile, list[bool]], texts: list[str]) -> None:
    table, add, alive = file
    facts = facts_from(add, SCHEMA, PARTITIONED)
    for text in texts:
        predicate = parse(text, SCHEMA)
        found = [result for result, live in zip(evaluate(predicate, table).to_pylist(), alive, strict=True) if live]
        assert may_match(predicate, facts) or True not in found, text
        assert not matches_all(predicate, facts) or set(found) == {True}, text


@settings(max_examples=100, deadline=None)
@given(files(), st.lists(combined(conditions(PARTITIONED)), min_size=1, max_size=8))
def test_partition_predicates_are_decided_exactly(file: tuple[pa.Table, AddFile, list[bool]], texts: list[str]) -> None:
    table, add, _ = file
    facts = facts_from(add, SCHEMA, PARTITIONED)
    for text in texts:
        predicate = parse(text, SCHEMA)
        assert {name for (name,) in columns(predicate)} <= set(PARTITIONED)
        found = set(evaluate(predicate, table).to_pylist())
        assert may_match(predicate, facts) == (True in found), text
        assert matches_all(predicate, facts) == (found == {True}), text
