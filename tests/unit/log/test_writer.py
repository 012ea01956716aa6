"""DeltaLog against a store that fails, lies or holds what others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import (
    InvalidInputError,
    LedgerCorruptError,
    ObjectNotFoundError,
    StoragePermissionError,
    StorageUnavailableError,
)
from deltasql.failpoints import arm
from deltasql.log.target import ForeignFound, Published
from deltasql.log.writer import DeltaLog
from deltasql.storage.base import ObjectMeta
from deltasql.storage.memory import MemoryStore
from log_samples import file_row, files, state

pytestmark = pytest.mark.unit

COMMIT = b'{"commitInfo":{"timestamp":1}}\n'
KEY = "_delta_log/00000000000000000003.json"
POINTER = "_delta_log/_last_checkpoint"
UNAVAILABLE = StorageUnavailableError("no answer")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log(store: MemoryStore) -> DeltaLog:
    return DeltaLog(store)


def keys(store: MemoryStore) -> list[str]:
    return [meta.key for meta in store.list()]


def test_a_lost_answer_is_resolved_by_looking(store: MemoryStore, log: DeltaLog) -> None:
    store.lose_answer("put_if_absent")
    assert log.publish(3, COMMIT, timestamp=5) == Published(version=3, created=True)


def test_an_unknown_put_that_did_not_happen_is_the_callers_to_repeat(store: MemoryStore, log: DeltaLog) -> None:
    store.fail_next("put_if_absent", UNAVAILABLE)
    with pytest.raises(StorageUnavailableError) as caught:
        log.publish(3, COMMIT, timestamp=5)
    assert caught.value is UNAVAILABLE
    assert keys(store) == []
    assert log.publish(3, COMMIT, timestamp=5) == Published(version=3, created=True)


def test_an_unknown_put_that_another_writer_won_is_foreign(store: MemoryStore, log: DeltaLog) -> None:
    store.put(KEY, b"other")
    store.fail_next("put_if_absent", UNAVAILABLE)
    assert log.publish(3, COMMIT, timestamp=5) == ForeignFound(version=3, found=b"other")


def test_a_refused_look_leaves_the_put_unknown(store: MemoryStore, log: DeltaLog) -> None:
    store.lose_answer("put_if_absent")
    store.fail_next("get", UNAVAILABLE)
    with pytest.raises(StorageUnavailableError):
        log.publish(3, COMMIT, timestamp=5)
    # The next try finds what the first one left.
    assert log.publish(3, COMMIT, timestamp=5) == Published(version=3, created=False)


def test_refused_as_existing_and_yet_absent_is_unknown(store: MemoryStore, log: DeltaLog) -> None:
    store.put(KEY, COMMIT)
    store.fail_next("get", ObjectNotFoundError("gone"))
    with pytest.raises(StorageUnavailableError, match="yet it does not exist"):
        log.publish(3, COMMIT, timestamp=5)


def test_a_refusal_is_no_unknown(store: MemoryStore, log: DeltaLog) -> None:
    store.fail_next("put_if_absent", StoragePermissionError("no"))
    store.fail_next("get", AssertionError("nothing to look for"))
    with pytest.raises(StoragePermissionError):
        log.publish(3, COMMIT, timestamp=5)


@pytest.mark.parametrize(
    "foreign",
    [b"", COMMIT[:-1], COMMIT + b"\n", COMMIT[:10], b'{"add":{}}\n'],
    ids=["empty", "cut", "longer", "half", "other"],
)
def test_what_differs_is_foreign_and_stays(store: MemoryStore, log: DeltaLog, foreign: bytes) -> None:
    store.put(KEY, foreign)
    store.fail_next("put", AssertionError("a commit is never overwritten"))
    assert log.publish(3, COMMIT, timestamp=5) == ForeignFound(version=3, found=foreign)
    assert store.get(KEY) == foreign


def test_the_commit_shows_its_own_time(store: MemoryStore, log: DeltaLog) -> None:
    log.publish(3, COMMIT, timestamp=1_700_000_000_123)
    meta = store.head(KEY)
    assert meta is not None
    assert meta.modified == 1_700_000_000_123


def test_faults_can_be_placed_around_every_step(store: MemoryStore, log: DeltaLog) -> None:
    seen: list[tuple[str, list[str]]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: seen.append((name, keys(store)))

    with ExitStack() as stack:
        for name in ("before_put", "after_put", "after_checkpoint"):
            stack.enter_context(arm(name, note(name)))
        log.publish(3, COMMIT, timestamp=5)
        log.write_checkpoint(state(3))
    checkpoint = "_delta_log/00000000000000000003.checkpoint.parquet"
    assert seen == [("before_put", []), ("after_put", [KEY]), ("after_checkpoint", [checkpoint, KEY])]


def test_what_was_published_is_synced_by_key(store: MemoryStore, log: DeltaLog) -> None:
    log.publish(3, COMMIT, timestamp=5)
    log.sync([3])
    with pytest.raises(ObjectNotFoundError):
        log.sync([3, 4])


class WatchedStore(MemoryStore):
    """Notes which keys of its listings were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        for meta in super().list(prefix, start_after=start_after):
            self.taken.append(meta.key)
            yield meta


def test_versions_are_listed_from_where_they_are_wanted_and_sub_folders_left_alone() -> None:
    store = WatchedStore()
    for version in (0, 1, 2, 9, 10):
        store.put(f"_delta_log/{version:020}.json", COMMIT)
    store.put("_delta_log/00000000000000000010.checkpoint.parquet", b"")
    store.put("_delta_log/_sidecars/1.parquet", b"")
    store.put("_delta_log/_sidecars/2.parquet", b"")
    assert DeltaLog(store).versions(9) == [9, 10]
    assert [key.removeprefix("_delta_log/").lstrip("0") for key in store.taken] == [
        "9.json",
        "10.checkpoint.parquet",
        "10.json",
        "_sidecars/1.parquet",
    ]


# -- checkpoints ----------------------------------------------------------------------------------------------------


def test_the_pointer_describes_the_checkpoint(store: MemoryStore, log: DeltaLog) -> None:
    written = log.write_checkpoint(state(10, files=[files(file_row("a"), file_row("b"))], num_files=2))
    data = store.get("_delta_log/00000000000000000010.checkpoint.parquet")
    assert pq.read_metadata(pa.BufferReader(data)).num_rows == written.actions == 4
    assert written.bytes == len(data)
    assert json.loads(store.get(POINTER)) == {
        "version": 10,
        "size": 4,
        "sizeInBytes": len(data),
        "numOfAddFiles": 2,
    }


@pytest.mark.parametrize(
    ("present", "moves"),
    [
        (b'{"version":9,"size":1}', True),
        # At the same version the pointer describes the file that was just replaced.
        (b'{"version":10,"size":1,"checkpointSchema":{}}', True),
        (b'{"version":11,"size":1}', False),
        (b"", True),
        (b'{"version":', True),
        (b"[11]", True),
        (b'{"version":"11"}', True),
        (b'{"version":true}', True),
        (b'{"version":-1}', True),
        (b'{"version":11,"version":12}', True),
        (b"\xff\xfe", True),
    ],
)
def test_the_pointer_never_goes_back_and_a_broken_one_is_mended(
    store: MemoryStore, log: DeltaLog, present: bytes, moves: bool
) -> None:
    store.put(POINTER, present)
    log.write_checkpoint(state(10))
    if moves:
        assert json.loads(store.get(POINTER))["size"] == 3
        assert log.last_checkpoint() == 10
    else:
        assert store.get(POINTER) == present


@pytest.mark.parametrize(
    "present",
    [b"", b"{", b"11", b"{}", b'{"version":"11"}', b'{"version":true}', b'{"version":1.0}', b'{"version":-1}'],
)
def test_a_pointer_without_a_version_points_nowhere(store: MemoryStore, log: DeltaLog, present: bytes) -> None:
    store.put(POINTER, present)
    assert log.last_checkpoint() is None


def test_a_state_that_does_not_add_up_puts_nothing(store: MemoryStore, log: DeltaLog) -> None:
    with pytest.raises(LedgerCorruptError):
        log.write_checkpoint(state(10, num_files=2))
    assert keys(store) == []


@pytest.mark.parametrize(("operation", "skip"), [("put", 0), ("put", 1), ("sync", 0), ("get", 0)])
def test_the_pointer_is_only_moved_once_the_checkpoint_stands(
    store: MemoryStore, log: DeltaLog, operation: str, skip: int
) -> None:
    store.fail_next(operation, UNAVAILABLE, skip=skip)  # pyright: ignore[reportArgumentType]
    with pytest.raises(StorageUnavailableError):
        log.write_checkpoint(state(10))
    assert POINTER not in keys(store)
    log.write_checkpoint(state(10))
    assert log.last_checkpoint() == 10


def test_a_pointer_that_cannot_be_asked_for_is_not_taken_for_absent(store: MemoryStore, log: DeltaLog) -> None:
    store.put(POINTER, b'{"version":11,"size":1}')
    store.fail_next("get", UNAVAILABLE)
    with pytest.raises(StorageUnavailableError):
        log.last_checkpoint()


# -- repair ---------------------------------------------------------------------------------------------------------


def test_quarantine_moves_a_file_and_keeps_all_it_ever_took(store: MemoryStore, log: DeltaLog) -> None:
    moved: list[str] = []
    for content in (b"first", b"second"):
        store.put(KEY, content)
        moved.append(log.quarantine(KEY))
        assert log.read_commit(3) is None
    assert [store.get(key) for key in moved] == [b"first", b"second"]
    assert all(key.startswith("_deltasql_quarantine/") and key.endswith("/00000000000000000003.json") for key in moved)
    assert log.publish(3, COMMIT, timestamp=5) == Published(version=3, created=True)


@pytest.mark.parametrize("key", ["part-0.parquet", "_delta_log/", "_delta_log", "x/_delta_log/0.json", ""])
def test_only_files_of_the_log_are_quarantined(store: MemoryStore, log: DeltaLog, key: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        log.quarantine(key)
    assert caught.value.field == "key"


def test_quarantine_does_not_reach_outside_the_log(store: MemoryStore, log: DeltaLog) -> None:
    store.put("part-0.parquet", b"data")
    with pytest.raises(InvalidInputError):
        log.quarantine("_delta_log/../part-0.parquet")
    assert keys(store) == ["part-0.parquet"]


def test_quarantine_of_nothing_says_so(log: DeltaLog) -> None:
    with pytest.raises(ObjectNotFoundError):
        log.quarantine(KEY)


def test_an_in_place_rebuild_may_replace_a_commit(store: MemoryStore, log: DeltaLog) -> None:
    store.put(KEY, b"damaged")
    log.replace_commit(3, COMMIT)
    assert log.read_commit(3) == COMMIT
