"""What a listing of a log says: head, checkpoints, where reading starts, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from deltasql.errors import MalformedLogError, TableNotFoundError
from deltasql.log.segment import Segment, list_segment
from deltasql.protocol.paths import (
    MAX_VERSION,
    checkpoint_name,
    checkpoint_part_name,
    checkpoint_v2_name,
    checksum_name,
    commit_name,
    compaction_name,
)
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def segment(*names: str, commits: Iterable[int] = ()) -> Segment:
    store = MemoryStore()
    for name in [*names, *map(commit_name, commits)]:
        store.put(f"_delta_log/{name}", b"x")
    return list_segment(store)


def found(listed: Segment) -> list[tuple[int, str, int]]:
    return [(each.version, each.kind, len(each.files)) for each in listed.checkpoints]


def test_commits_from_zero_need_no_checkpoint() -> None:
    listed = segment(commits=range(12))
    assert (listed.first, listed.head, listed.base, listed.checkpoints) == (0, 11, None, ())
    assert list(listed.commits) == list(range(12))
    assert listed.commits[3].key == "_delta_log/00000000000000000003.json"
    assert listed.checkpoint_for(11) is None


def test_history_starts_at_the_oldest_checkpoint_that_leads_to_the_head() -> None:
    listed = segment(checkpoint_name(4), checkpoint_name(8), commits=range(5, 10))
    assert (listed.first, listed.head) == (4, 9)
    assert listed.base is listed.checkpoints[0]


def test_a_checkpoint_before_a_gap_is_of_no_use() -> None:
    listed = segment(checkpoint_name(2), checkpoint_name(6), commits=[0, 1, 2, 3, 7, 8])
    assert listed.first == 6
    assert listed.base is listed.checkpoints[1]
    assert listed.checkpoint_for(3) is None


def test_with_every_commit_there_history_starts_at_zero_and_checkpoints_shorten_the_way() -> None:
    listed = segment(checkpoint_name(2), checkpoint_name(6), commits=range(9))
    assert listed.base is None
    assert [listed.checkpoint_for(version) for version in (1, 2, 5, 8)] == [
        None,
        listed.checkpoints[0],
        listed.checkpoints[0],
        listed.checkpoints[1],
    ]


@pytest.mark.parametrize("commits", [[], [10], range(5), range(11)])
def test_a_checkpoint_newer_than_every_commit_is_the_head(commits: Iterable[int]) -> None:
    listed = segment(checkpoint_name(10), commits=commits)
    assert listed.head == 10
    assert listed.checkpoint_for(10) is listed.checkpoints[0]


def test_a_checkpoint_in_parts_counts_once_it_is_whole() -> None:
    whole = [checkpoint_part_name(5, part, 3) for part in (1, 2, 3)]
    cut = [checkpoint_part_name(7, part, 3) for part in (1, 3)]
    # Parts of two attempts at one version do not add up.
    mixed = [checkpoint_part_name(3, 1, 2), checkpoint_part_name(3, 2, 4)]
    listed = segment(*whole, *cut, *mixed, commits=range(9))
    assert found(listed) == [(5, "multipart", 3)]
    assert [file.key[-29:-8] for file in listed.checkpoints[0].files] == [f"{part:010}.{3:010}" for part in (1, 2, 3)]


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_v2_checkpoint_is_recognised(suffix: str) -> None:
    listed = segment(f"{5:020}.checkpoint.{UUID}.{suffix}", commits=[6])
    assert found(listed) == [(5, "v2", 1)]
    assert listed.first == 5


def test_of_several_checkpoints_of_a_version_the_classic_one_is_taken() -> None:
    names = [checkpoint_name(5), checkpoint_v2_name(5, UUID), *(checkpoint_part_name(5, part, 2) for part in (1, 2))]
    assert found(segment(*names)) == [(5, "classic", 1)]
    assert found(segment(*names[1:])) == [(5, "v2", 1)]


def test_other_files_are_not_the_logs_versions() -> None:
    listed = segment(
        ".00000000000000000009.json.crc",
        "00000000000000000009.json.tmp",
        "_last_checkpoint",
        "_staged_commits/00000000000000000009.80a083e8-7026-4e79-81be-64bd76c43a11.json",
        f"_sidecars/{commit_name(9)}",
        checksum_name(9),
        compaction_name(0, 9),
        commits=[0, 1],
    )
    assert (listed.head, list(listed.commits)) == (1, [0, 1])


@pytest.mark.parametrize(
    ("names", "commits", "missing"),
    [
        ([], [1, 2], "0"),
        ([], [0, 1, 3], "2"),
        ([], [0, 2, 3, 7, 9], "1, 4-6, 8"),
        ([checkpoint_name(4)], [0, 5, 7], "6"),
        ([checkpoint_name(4)], [6], "5"),
        # A version that nobody can count up to is told at once.
        ([], [0, MAX_VERSION], f"1-{MAX_VERSION - 1}"),
        ([], range(1, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, …"),
    ],
)
def test_a_gap_is_refused_and_named(names: list[str], commits: list[int], missing: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        segment(*names, commits=commits)
    assert f" has no commit {missing}, and" in caught.value.message
    assert (caught.value.field, bool(caught.value.hint)) == ("location", True)


@pytest.mark.parametrize("names", [[], ["_last_checkpoint"], [checkpoint_part_name(0, 1, 2)]])
def test_a_folder_without_a_version_is_no_table(names: list[str]) -> None:
    with pytest.raises(TableNotFoundError) as caught:
        segment(*names)
    assert "memory://store" in caught.value.message
    assert (caught.value.field, bool(caught.value.hint)) == ("location", True)


def test_the_pointer_is_not_asked() -> None:
    store = MemoryStore()
    store.put("_delta_log/_last_checkpoint", b'{"version":99,"size":1}')
    store.put(f"_delta_log/{commit_name(0)}", b"x")
    store.fail_next("get", AssertionError("the listing alone decides"))
    assert list_segment(store).head == 0
