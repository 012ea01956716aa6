"""What every `ObjectStore` promises: one suite over local files, memory, and obstore (over its own memory store)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore as ObstoreMemory

from deltasql.errors import InvalidInputError, ObjectNotFoundError, StorageError
from deltasql.storage.base import ObjectMeta, ObjectStore
from deltasql.storage.local import LocalFiles
from deltasql.storage.memory import MemoryStore
from deltasql.storage.objects import ObstoreStore
from hostile_keys import CONTROL_KEYS, ESCAPES, HOSTILE_KEYS, SPARK_KEYS

pytestmark = pytest.mark.contract

STORES = ("local", "memory", "memory_folder", "obstore")


@pytest.fixture(params=STORES, ids="store={}".format)
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ObjectStore]:
    made = 0

    def make() -> ObjectStore:
        nonlocal made
        made += 1
        if request.param == "local":
            return LocalFiles(tmp_path / "not yet there" / str(made))
        if request.param == "memory":
            return MemoryStore()
        if request.param == "memory_folder":
            return MemoryStore().at("some/folder")
        return ObstoreStore(ObstoreMemory(), "memory://obstore")

    return make


@pytest.fixture
def store(new_store: Callable[[], ObjectStore]) -> ObjectStore:
    return new_store()


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads that are interrupted between nearly any two steps, so that a missing lock shows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def keys(store: ObjectStore, prefix: str = "", *, start_after: str | None = None) -> list[str]:
    return [meta.key for meta in store.list(prefix, start_after=start_after)]


def head(store: ObjectStore, key: str) -> ObjectMeta:
    meta = store.head(key)
    assert meta is not None
    return meta


def test_the_url_has_no_trailing_slash(store: ObjectStore) -> None:
    assert "://" in store.url
    assert not store.url.endswith("/")


def test_an_empty_store_answers_without_being_made(store: ObjectStore) -> None:
    assert keys(store) == []
    assert keys(store, "a/b") == []
    assert store.head("a") is None
    store.delete("a/b")
    with pytest.raises(ObjectNotFoundError, match="'a/b'"):
        store.get("a/b")


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 40_000], ids=["empty", "small", "10 MB"])
def test_what_is_put_is_got(store: ObjectStore, data: bytes) -> None:
    store.put("a/b", data)
    assert store.get("a/b") == data
    assert head(store, "a/b").size == len(data)


def test_put_replaces(store: ObjectStore) -> None:
    store.put("k", b"a much longer first content")
    store.put("k", b"second")
    assert store.get("k") == b"second"
    assert keys(store) == ["k"]


def test_a_changed_object_has_another_etag(store: ObjectStore) -> None:
    store.put("k", b"first")
    first = head(store, "k").etag
    assert first
    assert head(store, "k").etag == first
    store.put("k", b"second, longer")
    assert head(store, "k").etag != first


def test_put_if_absent_creates_once_and_then_leaves_the_object_alone(store: ObjectStore) -> None:
    assert store.put_if_absent("log/1", b"first") is True
    before = head(store, "log/1")
    assert store.put_if_absent("log/1", b"second", modified=1) is False
    assert store.get("log/1") == b"first"
    assert head(store, "log/1") == before


def test_put_if_absent_creates_again_after_a_delete(store: ObjectStore) -> None:
    store.put("k", b"old")
    store.delete("k")
    assert store.put_if_absent("k", b"new") is True
    assert store.get("k") == b"new"


@pytest.mark.usefixtures("restless_threads")
def test_put_if_absent_has_one_winner_of_16_threads(store: ObjectStore) -> None:
    start = Barrier(16)

    def race(number: int) -> list[bool]:
        start.wait()
        return [store.put_if_absent(f"log/{version:020}.json", b"%d" % number) for version in range(20)]

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(race, range(16)))
    for version in range(20):
        winners = [number for number in range(16) if results[number][version]]
        assert len(winners) == 1
        assert store.get(f"log/{version:020}.json") == b"%d" % winners[0]
    assert len(keys(store)) == 20


def test_readers_never_see_a_part_of_a_put(store: ObjectStore) -> None:
    contents = [bytes([n]) * 200_000 for n in range(4)]
    store.put("k", contents[0])

    def write(data: bytes) -> None:
        for _ in range(20):
            store.put("k", data)

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, data) for data in contents]
        while not all(writer.done() for writer in writers):
            assert store.get("k") in contents
        for writer in writers:
            writer.result()


def test_delete_removes_one_object(store: ObjectStore) -> None:
    store.put("a", b"")
    store.put("ab", b"")
    store.delete("a")
    store.delete("a")
    assert keys(store) == ["ab"]


def test_deleting_the_name_of_a_folder_deletes_nothing(store: ObjectStore) -> None:
    store.put("a/b", b"")
    store.delete("a")
    assert keys(store) == ["a/b"]
    assert store.head("a") is None
    with pytest.raises(ObjectNotFoundError):
        store.get("a")


def test_nothing_is_found_below_an_object(store: ObjectStore) -> None:
    store.put("a", b"")
    assert store.head("a/b") is None
    assert keys(store, "a/") == []
    store.delete("a/b")
    with pytest.raises(ObjectNotFoundError):
        store.get("a/b")


def test_rename_moves_an_object(store: ObjectStore) -> None:
    store.put("a/b", b"content")
    store.rename("a/b", "new folder/c")
    assert keys(store) == ["new folder/c"]
    assert store.get("new folder/c") == b"content"


@pytest.mark.parametrize("target", ["b", "a"], ids=["other", "itself"])
def test_rename_never_replaces(store: ObjectStore, target: str) -> None:
    store.put("a", b"source")
    store.put("b", b"target")
    with pytest.raises(StorageError) as caught:
        store.rename("a", target)
    assert type(caught.value) is StorageError
    assert [store.get("a"), store.get("b")] == [b"source", b"target"]


def test_rename_of_nothing_is_not_found(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFoundError, match="'a/b'"):
        store.rename("a/b", "c")
    assert keys(store) == []


def test_sync_accepts_what_was_put(store: ObjectStore) -> None:
    store.put("a/b", b"")
    store.put("c", b"")
    store.sync(["a/b", "c"])
    store.sync([])


def test_list_shows_what_head_shows(store: ObjectStore) -> None:
    store.put("a/b", b"12345")
    store.put_if_absent("c", b"", modified=1_700_000_000_123)
    assert list(store.list()) == [head(store, "a/b"), head(store, "c")]


def test_list_is_in_the_order_of_keys_not_of_folders(store: ObjectStore) -> None:
    expected = ["a!", "a-b", "a.b/c", "a/b", "a/b.c/d", "a/b0", "a0", "ab/c", "b", "é", "漢", "😀"]
    for key in reversed(expected):
        store.put(key, b"")
    assert keys(store) == expected


def test_list_takes_any_beginning_of_a_key(store: ObjectStore) -> None:
    for key in ["_delta_log/01.json", "_delta_log/02.json", "_delta_log/10.json", "_delta_log_old/x", "_delta"]:
        store.put(key, b"")
    assert keys(store, "_delta_log/") == ["_delta_log/01.json", "_delta_log/02.json", "_delta_log/10.json"]
    assert keys(store, "_delta_log/0") == ["_delta_log/01.json", "_delta_log/02.json"]
    assert keys(store, "_delta_log") == [*keys(store, "_delta_log/"), "_delta_log_old/x"]
    assert keys(store, "_delta_log/01.json") == ["_delta_log/01.json"]
    assert keys(store, "_delta_log/01.json/") == []
    assert keys(store, "nothing") == []


def test_1000_keys_are_listed_in_order_and_from_any_place(store: ObjectStore) -> None:
    versions = [f"_delta_log/{version:020}.json" for version in range(1000)]
    for key in reversed(versions):
        store.put_if_absent(key, b"{}")
    assert keys(store) == versions
    assert keys(store, "_delta_log/", start_after=versions[899]) == versions[900:]
    assert keys(store, start_after=versions[-1]) == []
    assert keys(store, start_after="_delta_log/") == versions
    assert keys(store, start_after="_delta_log/00000000000000000500") == versions[500:]
    assert keys(store, start_after="a") == []


@pytest.mark.parametrize("odd", ["/", "//", "a//", "../", "\x01", "a\x01/", "\0"])
def test_list_starts_after_any_text(store: ObjectStore, odd: str) -> None:
    for key in ("!", "a", "b"):
        store.put(key, b"")
    assert keys(store, start_after=odd) == [key for key in ("!", "a", "b") if key > odd]


def test_no_key_begins_with_what_no_key_holds(store: ObjectStore) -> None:
    store.put("a", b"")
    assert keys(store, "\x01") == keys(store, "\x01/") == []


NAMES = st.lists(st.text("ab.-/0é", min_size=1, max_size=5), max_size=12, unique=True)


@given(names=NAMES, prefix=st.text("ab./", max_size=3), start_after=st.none() | st.text("ab.-/é", max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_list_agrees_with_a_plain_filter(
    new_store: Callable[[], ObjectStore], names: list[str], prefix: str, start_after: str | None
) -> None:
    store = new_store()
    put: list[str] = []
    for name in names:
        invalid = any(part in {"", ".", ".."} for part in name.split("/"))
        # A file system cannot hold `a` beside `a/b`; what stores do then is no part of the contract.
        if invalid or any(name.startswith(f"{other}/") or other.startswith(f"{name}/") for other in put):
            continue
        store.put(name, b"")
        put.append(name)
    if any(part in {"", ".", ".."} for part in prefix.split("/")[:-1]):
        with pytest.raises(InvalidInputError):
            store.list(prefix)
        return
    expected = [key for key in sorted(put) if key.startswith(prefix) and key > (start_after or "")]
    assert keys(store, prefix, start_after=start_after) == expected


@pytest.mark.parametrize("key", SPARK_KEYS + HOSTILE_KEYS + CONTROL_KEYS)
def test_hostile_keys_go_through_every_method(store: ObjectStore, key: str) -> None:
    if isinstance(store, ObstoreStore) and key in CONTROL_KEYS:
        # obstore cannot hold these: they are refused, never stored under another name.
        with pytest.raises(InvalidInputError) as caught:
            store.put(key, b"")
        assert caught.value.field == "key"
        assert keys(store) == []
        return
    assert store.put_if_absent(key, b"one") is True
    assert store.put_if_absent(key, b"two") is False
    assert keys(store) == [key]
    assert keys(store, key) == [key]
    assert keys(store, start_after=key) == []
    assert store.get(key) == b"one"
    store.put(key, b"three")
    assert head(store, key).size == 5
    store.sync([key])
    store.rename(key, "plain")
    assert keys(store) == ["plain"]
    store.rename("plain", key)
    store.delete(key)
    assert keys(store) == []


def test_hostile_keys_stay_apart(store: ObjectStore) -> None:
    every = SPARK_KEYS + HOSTILE_KEYS + ([] if isinstance(store, ObstoreStore) else CONTROL_KEYS)
    for key in every:
        store.put(key, key.encode())
    assert keys(store) == sorted(every)
    assert [store.get(key) for key in every] == [key.encode() for key in every]


@pytest.mark.parametrize("key", ESCAPES)
def test_keys_that_leave_the_folder_are_refused_everywhere(store: ObjectStore, key: str) -> None:
    store.put("fine", b"")
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.head(key),
        lambda: store.put(key, b""),
        lambda: store.put_if_absent(key, b""),
        lambda: store.delete(key),
        lambda: store.rename(key, "x"),
        lambda: store.rename("fine", key),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.field == "key"
        assert caught.value.hint
    assert keys(store) == ["fine"]


@pytest.mark.parametrize("prefix", ["/", "/etc/", "../", "a/../", "./", "a//", "nul\0"])
def test_prefixes_that_leave_the_folder_are_refused_at_the_call(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        store.list(prefix)
    assert caught.value.field == "prefix"


def test_names_of_temporary_files_are_reserved(store: ObjectStore) -> None:
    with pytest.raises(InvalidInputError, match="temporary"):
        store.put(f"a/.deltasql-{'0' * 32}.tmp", b"")


RACER = """
import sys
from pathlib import Path
from deltasql.storage.local import LocalFiles
store = LocalFiles(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(*[n for n in range(50) if store.put_if_absent(f"_delta_log/{n:020}.json", sys.argv[2].encode() * 1000)])
"""


def test_put_if_absent_on_local_files_has_one_winner_of_8_processes(tmp_path: Path) -> None:
    root = tmp_path / "table"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(root), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [[int(n) for n in racer.communicate()[0].split()] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 8
    assert Counter(n for wins in won for n in wins) == Counter(range(50))
    store = LocalFiles(root)
    for number, wins in enumerate(won):
        for n in wins:
            assert store.get(f"_delta_log/{n:020}.json") == b"%d" % number * 1000
    assert len(list((root / "_delta_log").iterdir())) == 50


def test_the_suite_runs_over_every_store() -> None:
    """Collected anew, so that the answer does not depend on what was selected for this run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", __file__]
    collected = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert collected.returncode == 0, collected.stdout
    cases = Counter(re.findall(r"store=(\w+)", collected.stdout))
    assert set(cases) == {"local", "memory", "memory_folder", "obstore"}
    assert min(cases.values()) == max(cases.values()) > 70
