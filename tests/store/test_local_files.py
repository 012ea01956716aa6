"""What local files promise beyond the contract: names on disk, durability, Hadoop's checksums, leftovers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from deltasql.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.local import LocalFiles

pytestmark = pytest.mark.store

LOG_FILE = "_delta_log/00000000000000000007.json"
FAR_FUTURE = 1 << 62


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def store(root: Path) -> LocalFiles:
    return LocalFiles(root)


def names_on_disk(root: Path) -> list[bytes]:
    found = [folder + b"/" + name for folder, _, files in os.walk(os.fsencode(root)) for name in files]
    return sorted(path.removeprefix(os.fsencode(root) + b"/") for path in found)


def keys(store: LocalFiles, prefix: str = "") -> list[str]:
    return [meta.key for meta in store.list(prefix)]


def crc_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def write(path: Path, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def run_python(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


class TestNames:
    @pytest.mark.parametrize(
        "key",
        [
            "p=a b%2Fc%3Ad%25e%22f%27g%231%01/part-00000.parquet",  # as Delta Spark wrote it
            "a#1",
            "'quoted' \"twice\"",
            "c:d",
            "Größe/漢字😀",
            "bell\x07 tab\t line\n delete\x7f",
        ],
    )
    def test_the_name_on_disk_is_the_key(self, store: LocalFiles, root: Path, key: str) -> None:
        store.put_if_absent(key, b"")
        assert names_on_disk(root) == [key.encode()]
        store.delete(key)
        store.put(key, b"")
        assert names_on_disk(root) == [key.encode()]
        store.rename(key, "other")
        store.rename("other", key)
        assert names_on_disk(root) == [key.encode()]

    def test_the_locale_does_not_change_names(self, root: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from deltasql.storage.local import LocalFiles\n"
            "store = LocalFiles(Path(sys.argv[1])); key = 'Gr\\xf6\\xdfe/\\u6f22'; store.put(key, b'x')\n"
            "print(sys.getfilesystemencoding(), [meta.key for meta in store.list()] == [key])"
        )
        done = run_python(script, str(root), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
        assert done.stdout == "ascii True\n", done.stderr
        assert names_on_disk(root) == ["Größe/漢".encode()]

    def test_names_that_are_not_utf8_are_not_listed_and_break_nothing(self, store: LocalFiles, root: Path) -> None:
        store.put("a", b"")
        (Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))).write_bytes(b"")
        Path(os.fsdecode(os.fsencode(root) + b"/folder\xff")).mkdir()
        assert keys(store) == ["a"]

    def test_links_to_folders_are_not_walked_and_other_links_are_followed(
        self, store: LocalFiles, root: Path, tmp_path: Path
    ) -> None:
        write(tmp_path / "outside/file", b"12")
        store.put("a", b"")
        (root / "folder").symlink_to(tmp_path / "outside")
        (root / "loop").symlink_to(root)
        (root / "broken").symlink_to(tmp_path / "nowhere")
        (root / "linked").symlink_to(tmp_path / "outside/file")
        assert [(meta.key, meta.size) for meta in store.list()] == [("a", 0), ("linked", 2)]

    def test_a_pipe_is_no_object_and_nobody_waits_for_it(self, store: LocalFiles, root: Path) -> None:
        root.mkdir()
        os.mkfifo(root / "pipe")
        assert keys(store) == []
        assert store.head("pipe") is None
        with pytest.raises(ObjectNotFoundError):
            store.get("pipe")

    def test_a_store_goes_to_another_process(self, store: LocalFiles) -> None:
        store.put("a", b"1")
        other = pickle.loads(pickle.dumps(store))
        assert (other.url, other.get("a")) == (store.url, b"1")

    def test_the_root_must_be_absolute(self) -> None:
        with pytest.raises(InvalidInputError) as caught:
            LocalFiles(Path("relative"))
        assert caught.value.field == "root"


class TestTimes:
    def test_modified_is_the_time_of_the_file(self, store: LocalFiles, root: Path) -> None:
        store.put_if_absent(LOG_FILE, b"{}", modified=1_700_000_000_123)
        assert (root / LOG_FILE).stat().st_mtime_ns == 1_700_000_000_123_000_000
        meta = store.head(LOG_FILE)
        assert meta is not None
        assert meta.modified == 1_700_000_000_123

    def test_a_file_has_its_time_from_the_moment_it_is_seen(
        self, store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        times: list[int] = []
        link = os.link

        def spy(source: bytes, target: bytes) -> None:
            link(source, target)
            times.append((root / LOG_FILE).stat().st_mtime_ns)

        monkeypatch.setattr(os, "link", spy)
        store.put_if_absent(LOG_FILE, b"{}", modified=1_000)
        assert times == [1_000_000_000]

    def test_a_lost_race_does_not_touch_the_time(self, store: LocalFiles, root: Path) -> None:
        store.put_if_absent(LOG_FILE, b"{}", modified=5_000)
        assert store.put_if_absent(LOG_FILE, b"{}", modified=9_000) is False
        assert (root / LOG_FILE).stat().st_mtime_ns == 5_000_000_000


class TestDurability:
    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The inodes that were fsynced, in order."""
        inodes: list[int] = []
        fsync = os.fsync

        def spy(descriptor: int) -> None:
            inodes.append(os.fstat(descriptor).st_ino)
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", spy)
        return inodes

    def test_sync_takes_every_file_and_every_folder_up_to_the_root_once(
        self, store: LocalFiles, root: Path, synced: list[int]
    ) -> None:
        # Written by others: Spark makes folders and files without syncing them.
        files = [write(root / key) for key in ("a/b/1", "a/b/2", "a/c/3", "4")]
        store.sync(["a/b/1", "a/b/2", "a/c/3", "4"])
        folders = [root / "a/b", root / "a/c", root / "a", root]
        assert Counter(synced) == Counter(path.stat().st_ino for path in [*files, *folders])
        assert set(synced[:4]) == {file.stat().st_ino for file in files}
        assert synced[-1] == root.stat().st_ino

    def test_folders_made_on_the_way_are_synced_where_they_are_entered(self, tmp_path: Path, synced: list[int]) -> None:
        store = LocalFiles(tmp_path / "new/lake")
        store.put("a/b/1", b"")
        entered = [tmp_path, tmp_path / "new", tmp_path / "new/lake", tmp_path / "new/lake/a"]
        assert synced[:4] == [folder.stat().st_ino for folder in entered]

    @pytest.mark.parametrize("method", ["put", "put_if_absent"])
    def test_content_is_on_disk_before_it_has_its_name(
        self, store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        seen: list[tuple[int, bool]] = []
        root.mkdir()
        monkeypatch.setattr(os, "fsync", lambda fd: seen.append((os.fstat(fd).st_size, (root / "k").exists())))
        getattr(store, method)("k", b"12345")
        assert seen == [(5, False)]

    def test_sync_of_what_is_not_there_is_not_found(self, store: LocalFiles) -> None:
        with pytest.raises(ObjectNotFoundError, match="'a/b'"):
            store.sync(["a/b"])


class TestHadoopChecksums:
    def test_put_removes_the_checksum_of_what_it_replaces(self, store: LocalFiles, root: Path) -> None:
        crc = crc_of(write(root / "_delta_log/_last_checkpoint", b"old"))
        write(crc)
        store.put("_delta_log/_last_checkpoint", b"new")
        assert not crc.exists()

    def test_put_removes_it_before_the_new_content_is_seen(
        self, store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        crc = write(crc_of(root / "k"))
        there: list[bool] = []
        replace = os.replace

        def spy(source: bytes, target: bytes) -> None:
            there.append(crc.exists())
            replace(source, target)

        monkeypatch.setattr(os, "replace", spy)
        store.put("k", b"")
        assert there == [False]

    def test_put_if_absent_removes_a_stale_one(self, store: LocalFiles, root: Path) -> None:
        crc = write(crc_of(root / LOG_FILE))
        assert store.put_if_absent(LOG_FILE, b"{}")
        assert not crc.exists()

    def test_put_if_absent_leaves_the_one_of_an_existing_file(self, store: LocalFiles, root: Path) -> None:
        crc = write(crc_of(write(root / LOG_FILE)))
        assert not store.put_if_absent(LOG_FILE, b"{}")
        assert crc.exists()

    def test_delete_removes_it_too(self, store: LocalFiles, root: Path) -> None:
        write(crc_of(write(root / LOG_FILE)))
        store.delete(LOG_FILE)
        assert names_on_disk(root) == []

    def test_rename_removes_those_of_source_and_target(self, store: LocalFiles, root: Path) -> None:
        write(crc_of(write(root / "a")))
        write(crc_of(root / "b"))
        store.rename("a", "b")
        assert names_on_disk(root) == [b"b"]

    def test_a_refused_rename_leaves_them(self, store: LocalFiles, root: Path) -> None:
        for name in ("a", "b"):
            write(crc_of(write(root / name)))
        with pytest.raises(StorageError):
            store.rename("a", "b")
        assert names_on_disk(root) == [b".a.crc", b".b.crc", b"a", b"b"]

    def test_others_stay(self, store: LocalFiles, root: Path) -> None:
        for name in ("00.crc", ".01.json.crc", ".00.json.crc.crc"):
            write(root / name)
        store.put("00.json", b"")
        store.delete("00.json")
        assert names_on_disk(root) == [b".00.json.crc.crc", b".01.json.crc", b"00.crc"]


class TestLeftovers:
    # Kills itself once the temporary file is written and before it gets its name.
    KILLED = """
import os, signal, sys
from pathlib import Path
from deltasql.storage.local import LocalFiles
Path(sys.argv[1], "_delta_log").mkdir(parents=True)
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
LocalFiles(Path(sys.argv[1])).put_if_absent(sys.argv[2], b"{}", modified=1000)
"""

    def test_a_killed_writer_leaves_a_temporary_that_is_not_listed_and_can_be_swept(
        self, store: LocalFiles, root: Path
    ) -> None:
        assert run_python(self.KILLED, str(root), LOG_FILE).returncode == -signal.SIGKILL
        (leftover,) = names_on_disk(root)
        assert keys(store) == []
        assert store.head(LOG_FILE) is None
        # Its modification time was set to 1970 already: what counts is when it was last touched.
        assert store.sweep(before=2_000) == []
        assert store.sweep("_delta_log/", before=FAR_FUTURE) == [leftover.decode()]
        assert names_on_disk(root) == []
        assert store.put_if_absent(LOG_FILE, b"{}") is True

    def test_sweep_takes_only_temporaries_below_the_prefix(self, store: LocalFiles, root: Path) -> None:
        temporary = f".deltasql-{'0' * 32}.tmp"
        kept = ["a#1", "a/b#12", ".deltasql-x.tmp", ".hidden.tmp", f"x{temporary}", f"b/{temporary}"]
        for key in [*kept, f"a/{temporary}", f"a/deep/{temporary}"]:
            write(root / key)
        assert store.sweep("a/", before=FAR_FUTURE) == [f"a/{temporary}", f"a/deep/{temporary}"]
        assert names_on_disk(root) == sorted(key.encode() for key in kept)
        assert store.sweep(before=FAR_FUTURE) == [f"b/{temporary}"]
        assert store.sweep(before=FAR_FUTURE) == []

    def test_a_temporary_swept_too_early_is_said_as_it_is(
        self, store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root.mkdir()
        monkeypatch.setattr(os, "fsync", lambda descriptor: store.sweep(before=FAR_FUTURE))
        for method in (store.put, store.put_if_absent):
            with pytest.raises(StorageUnavailableError, match="temporary"):
                method("k", b"")
        assert names_on_disk(root) == []
