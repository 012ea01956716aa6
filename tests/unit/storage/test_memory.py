"""The failures that the store in memory can be told to have."""

from __future__ import annotations

import time

import pytest

from deltasql.errors import StoragePermissionError, StorageUnavailableError
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

DENIED = StoragePermissionError("denied")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_planned_failure_comes_once_and_before_anything_happens(store: MemoryStore) -> None:
    store.fail_next("put", DENIED)
    with pytest.raises(StoragePermissionError) as caught:
        store.put("k", b"1")
    assert caught.value is DENIED
    assert store.head("k") is None
    store.put("k", b"1")
    assert store.get("k") == b"1"


def test_other_operations_are_not_concerned(store: MemoryStore) -> None:
    store.fail_next("delete", DENIED)
    store.put("k", b"1")
    assert [meta.key for meta in store.list()] == ["k"]
    with pytest.raises(StoragePermissionError):
        store.delete("k")
    assert store.get("k") == b"1"


@pytest.mark.parametrize("nth", range(4))
def test_the_nth_call_can_fail_whatever_it_is(store: MemoryStore, nth: int) -> None:
    store.fail_next(None, DENIED, skip=nth)
    calls = [lambda: store.put("a", b""), lambda: store.get("a"), store.list, lambda: store.sync(["a"])]
    for call in calls[:nth]:
        call()
    with pytest.raises(StoragePermissionError):
        calls[nth]()


def test_failures_are_met_in_the_order_they_were_planned(store: MemoryStore) -> None:
    store.fail_next("get", StorageUnavailableError("first"))
    store.fail_next("get", StorageUnavailableError("second"))
    for text in ("first", "second"):
        with pytest.raises(StorageUnavailableError, match=text):
            store.get("k")


def test_a_lost_answer_comes_after_success(store: MemoryStore) -> None:
    store.lose_answer("put_if_absent")
    with pytest.raises(StorageUnavailableError, match="never came"):
        store.put_if_absent("k", b"mine")
    assert store.get("k") == b"mine"
    assert store.put_if_absent("k", b"mine") is False


def test_a_lost_answer_can_be_that_of_a_lost_race(store: MemoryStore) -> None:
    store.put("k", b"theirs")
    store.lose_answer("put_if_absent")
    with pytest.raises(StorageUnavailableError):
        store.put_if_absent("k", b"mine")
    assert store.get("k") == b"theirs"


def test_folders_share_objects_and_failures(store: MemoryStore) -> None:
    table = store.at("sales/my orders")
    assert table.url == "memory://store/sales/my%20orders"
    table.put("k", b"1")
    assert [meta.key for meta in store.list()] == ["sales/my orders/k"]
    assert [meta.key for meta in store.at("sales").at("my orders").list()] == ["k"]
    store.put("sales/my orders too/k", b"")
    assert [meta.key for meta in table.list()] == ["k"]
    store.fail_next("get", DENIED)
    with pytest.raises(StoragePermissionError):
        table.get("k")


def test_nobody_else_looks_between_check_and_write(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[bool] = []

    def now() -> int:  # asked for once the key was found free and before the object is there
        locked.append(store._contents.lock.locked())
        return 0

    monkeypatch.setattr(time, "time_ns", now)
    assert store.put_if_absent("k", b"") is True
    assert locked == [True]


def test_modified_is_shown(store: MemoryStore) -> None:
    store.put_if_absent("k", b"", modified=1_700_000_000_123)
    meta = store.head("k")
    assert meta is not None
    assert meta.modified == 1_700_000_000_123
