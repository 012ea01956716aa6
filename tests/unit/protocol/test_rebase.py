"""A commit at the place where it comes to stand: row ids, versions and times are those of that place."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import InvalidInputError, MalformedLogError, UnsupportedError
from deltasql.protocol.actions import (
    Action,
    AddCdcFile,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.features import check_writable, keeps_row_ids, tracks_rows
from deltasql.protocol.jsonlog import encode_action
from deltasql.protocol.rebase import NO_ROW_IDS, Place, row_id_high_water, settle

pytestmark = pytest.mark.unit

PLACE = Place(version=7, timestamp=1_700_000_000_000, read_version=4, row_id_high_water=None)
TRACKED = msgspec.structs.replace(PLACE, row_id_high_water=99)
ENABLED = "delta.inCommitTimestampEnablement"


def add(path: str, records: int | None = 10, base: int | None = None, version: int | None = None) -> AddFile:
    stats = None if records is None else f'{{"numRecords":{records}}}'
    return AddFile(
        path=path,
        size=1,
        modification_time=1,
        data_change=True,
        stats=stats,
        base_row_id=base,
        default_row_commit_version=version,
    )


def mark(value: int, *, removed: bool = False) -> DomainMetadata:
    configuration = f'{{"rowIdHighWaterMark":{value},"domainName":"delta.rowTracking"}}'
    return DomainMetadata(domain="delta.rowTracking", configuration=configuration, removed=removed)


def ids(actions: list[Action]) -> list[tuple[int | None, int | None]]:
    return [(a.base_row_id, a.default_row_commit_version) for a in actions if isinstance(a, AddFile)]


def described(schema: str = '{"type":"struct","fields":[]}', **configuration: str) -> Metadata:
    return Metadata(id="i", schema_string=schema, configuration=configuration)


OTHERS: list[Action] = [
    described(),
    TableProtocol(min_reader_version=1, min_writer_version=2),
    SetTransaction(app_id="a", version=1),
    DomainMetadata(domain="d", configuration="{}", removed=False),
    RemoveFile(path="r", data_change=True, base_row_id=3, default_row_commit_version=5),
    AddCdcFile(path="c", size=1, data_change=False),
    UnknownAction("new", {}),
]


# -- row ids


def test_what_depends_on_no_place_comes_back_itself() -> None:
    actions = [add("x", records=None, base=100, version=5), mark(100), *OTHERS]
    settled, high = settle(actions, PLACE)
    assert high is None
    assert all(left is right for left, right in zip(settled, actions, strict=True))


def test_new_files_get_ids_above_the_mark_in_order_and_the_version() -> None:
    settled, high = settle([add("x", 10), add("empty", 0), add("y", 5)], TRACKED)
    assert ids(settled) == [(100, 7), (110, 7), (110, 7)]
    assert high == 114


def test_the_first_id_of_a_table_is_zero() -> None:
    settled, high = settle([add("x", 3)], msgspec.structs.replace(TRACKED, row_id_high_water=NO_ROW_IDS))
    assert ids(settled) == [(0, 7)]
    assert high == 2


def test_rows_that_a_deletion_vector_hides_have_ids_too() -> None:
    vector = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=4)
    settled, high = settle([msgspec.structs.replace(add("x", 10), deletion_vector=vector)], TRACKED)
    assert (ids(settled), high) == ([(100, 7)], 109)


def test_the_new_mark_is_a_line_as_delta_spark_writes_it_before_the_files() -> None:
    remove, last = OTHERS[4], OTHERS[6]
    settled, _ = settle([OTHERS[0], OTHERS[2], remove, add("x"), last], TRACKED)
    assert [type(action) for action in settled] == [
        *(Metadata, SetTransaction, DomainMetadata, RemoveFile, AddFile, UnknownAction)
    ]
    assert encode_action(settled[2]) == (
        b'{"domainMetadata":{"domain":"delta.rowTracking","configuration":'
        b'"{\\"rowIdHighWaterMark\\":109,\\"domainName\\":\\"delta.rowTracking\\"}","removed":false}}\n'
    )


def test_ids_that_another_engine_gave_out_for_the_version_it_did_not_get_are_given_out_anew() -> None:
    # It had read version 4 with the mark at 49, and counted on; meanwhile others came to 99.
    settled, high = settle([mark(69), add("x", base=50, version=5), add("y", base=60, version=5)], TRACKED)
    assert ids(settled) == [(100, 7), (110, 7)]
    assert [action for action in settled if isinstance(action, DomainMetadata)] == [mark(119)]
    assert high == 119


def test_ids_above_the_mark_are_given_out_anew_whatever_version_they_name() -> None:
    assert ids(settle([add("x", base=500, version=3), add("y", base=500)], TRACKED)[0]) == [(100, 7), (110, 7)]
    assert ids(settle([add("x", 10), add("y", base=105, version=3)], TRACKED)[0]) == [(100, 7), (110, 7)]


def test_a_file_that_is_described_again_keeps_its_ids_and_needs_no_mark() -> None:
    carried = add("x", records=None, base=99, version=4)
    settled, high = settle([carried, mark(99)], TRACKED)
    assert settled == [carried]
    assert settled[0] is carried
    assert high == 99


def test_without_a_read_version_only_ids_of_the_commit_itself_are_new() -> None:
    place = msgspec.structs.replace(TRACKED, read_version=None)
    assert ids(settle([add("x", base=50, version=6), add("y", base=60, version=7)], place)[0]) == [(50, 6), (100, 7)]


def test_nothing_added_leaves_no_mark() -> None:
    assert settle(OTHERS, TRACKED) == (OTHERS, 99)
    assert settle([add("empty", 0), mark(5)], TRACKED) == ([add("empty", 0, base=100, version=7)], 99)


def test_a_domain_that_is_removed_stays_removed() -> None:
    assert settle([mark(99, removed=True)], TRACKED) == ([mark(99, removed=True)], 99)


@pytest.mark.parametrize("stats", [None, "{}", '{"numRecords":null}', '{"numRecords":-1}', '{"numRecords":true}'])
def test_a_file_without_a_number_of_rows_is_refused(stats: str | None) -> None:
    with pytest.raises(InvalidInputError, match="some/file") as caught:
        settle([msgspec.structs.replace(add("some/file"), stats=stats)], TRACKED)
    assert caught.value.field == "stats.numRecords"
    assert caught.value.hint


def test_ids_do_not_run_over() -> None:
    place = msgspec.structs.replace(TRACKED, row_id_high_water=2**63 - 11)
    assert settle([add("x", 10)], place)[1] == 2**63 - 1
    with pytest.raises(InvalidInputError, match="numRecords is 11"):
        settle([add("x", 11)], place)


def test_an_old_id_without_its_version_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        settle([add("x", base=5)], TRACKED)
    assert caught.value.field == "default_row_commit_version"


def test_the_mark_is_read_from_the_domain() -> None:
    assert row_id_high_water('{"rowIdHighWaterMark":-1}') == -1
    assert row_id_high_water('{"rowIdHighWaterMark":9223372036854775807,"more":1}') == 2**63 - 1
    for text in ("", "[]", "{}", '{"rowIdHighWaterMark":"1"}', '{"rowIdHighWaterMark":1.5}'):
        with pytest.raises(MalformedLogError, match=r"delta\.rowTracking"):
            row_id_high_water(text)


# -- metadata


def test_type_changes_of_this_commit_get_its_version_wherever_they_are() -> None:
    def schema(version: int) -> str:
        old, new = {"toType": "long", "tableVersion": 4}, {"toType": "double", "tableVersion": version}
        inner = {"name": "i", "type": "long", "metadata": {"delta.typeChanges": [new]}}
        array = {"type": "array", "elementType": {"type": "struct", "fields": [inner]}}
        fields = [
            {"name": "x", "type": "double", "nullable": True, "metadata": {"delta.typeChanges": [old, new]}},
            {"name": "tableVersion", "type": array, "nullable": True, "metadata": {"tableVersion": 5}},
        ]
        return orjson.dumps({"type": "struct", "fields": fields}).decode()

    [settled], _ = settle([described(schema(5))], PLACE)
    assert settled == described(schema(7))


def test_a_schema_without_type_changes_of_this_commit_keeps_its_spelling() -> None:
    text = '{"type": "struct", "fields": [{"metadata": {"delta.typeChanges": [{"tableVersion": 4}]}}]}'
    actions = [described(text)]
    for place in (PLACE, msgspec.structs.replace(PLACE, version=4, read_version=3)):
        assert settle(actions, place)[0][0] is actions[0]


def test_in_commit_timestamps_begin_with_this_commit_if_they_were_to_begin_with_it() -> None:
    given_ = {"z": "1", f"{ENABLED}Version": "5", f"{ENABLED}Timestamp": "12", "a": "2"}
    [settled], _ = settle([described(**given_)], PLACE)
    assert isinstance(settled, Metadata)
    expected = given_ | {f"{ENABLED}Version": "7", f"{ENABLED}Timestamp": "1700000000000"}
    assert list(settled.configuration.items()) == list(expected.items())


@pytest.mark.parametrize("read_version", [None, 3])
def test_in_commit_timestamps_that_began_before_are_left_alone(read_version: int | None) -> None:
    actions = [described(**{f"{ENABLED}Version": "5", f"{ENABLED}Timestamp": "12"})]
    place = msgspec.structs.replace(PLACE, read_version=read_version)
    assert settle(actions, place)[0][0] is actions[0]


# -- for all commits

FRESH = st.builds(add, st.text("fx", min_size=1), st.integers(0, 20))
STALE = st.builds(add, st.just("s"), st.integers(0, 20), st.integers(50, 150), st.integers(5, 9))
CARRIED = st.builds(add, st.just("c"), st.integers(0, 20), st.integers(0, 49), st.integers(0, 4))
COMMITS = st.lists(st.one_of(FRESH, STALE, CARRIED, st.sampled_from(OTHERS), st.builds(mark, st.integers(0, 200))))


@given(actions=COMMITS)
def test_settling_again_for_the_same_place_changes_nothing(actions: list[Action]) -> None:
    once = settle(actions, TRACKED)
    again = settle(once[0], TRACKED)
    assert again == once
    assert all(left is right for left, right in zip(again[0], once[0], strict=True) if isinstance(left, AddFile))


@given(commits=st.lists(COMMITS, max_size=4))
def test_no_two_rows_ever_get_the_same_id(commits: list[list[Action]]) -> None:
    high, given_out = 99, [(0, 99)]
    for version, actions in enumerate(commits, start=7):
        place = msgspec.structs.replace(TRACKED, version=version, row_id_high_water=high)
        settled, now = settle(actions, place)
        files = [a for a in settled if isinstance(a, AddFile) and a.default_row_commit_version == version]
        ranges = [(a.base_row_id or 0, orjson.loads(a.stats or "")["numRecords"]) for a in files]
        given_out += [(base, base + count - 1) for base, count in ranges if count]
        marks = [a.configuration for a in settled if isinstance(a, DomainMetadata) and a.domain == "delta.rowTracking"]
        assert now is not None
        assert [row_id_high_water(text) for text in marks] == ([] if now == high else [now])
        high = now
    assert all(end + 1 == start for (_, end), (start, _) in pairwise(given_out))
    assert given_out[-1][1] == high


# -- who may write to a table that tracks rows

PROTOCOL = TableProtocol(
    min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "domainMetadata", "rowTracking")
)


def test_rows_are_tracked_while_the_feature_is_there_and_not_suspended() -> None:
    assert tracks_rows(PROTOCOL, described())
    assert tracks_rows(PROTOCOL, described(**{"delta.rowTrackingSuspended": "false"}))
    assert not tracks_rows(PROTOCOL, described(**{"delta.rowTrackingSuspended": "True"}))
    assert not tracks_rows(TableProtocol(min_reader_version=1, min_writer_version=2), described())


def test_rows_may_be_written_where_they_may_get_new_ids() -> None:
    check_writable("t", PROTOCOL, described(), fresh_row_ids=True)
    for metadata in (described(), described(**{"delta.enableRowTracking": "true"})):
        with pytest.raises(UnsupportedError, match="rowTracking"):
            check_writable("t", PROTOCOL, metadata)
    assert not keeps_row_ids(described(**{"delta.enableRowTracking": "false"}))
    assert keeps_row_ids(described(**{"delta.enableRowTracking": "TRUE"}))
