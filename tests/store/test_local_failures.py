"""What goes wrong on local files, provoked for real, and in ways that stop root too."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltasql.errors import StorageError, StorageFullError, StoragePermissionError
from deltasql.storage.failures import classify
from deltasql.storage.local import LocalFiles

pytestmark = pytest.mark.store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def store(root: Path) -> LocalFiles:
    return LocalFiles(root)


def files(root: Path) -> list[str]:
    """Every file on disk, temporaries too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_folder_that_nobody_may_write() -> None:
    store = LocalFiles(Path("/sys/deltasql"))
    for write_something in (store.put, store.put_if_absent):
        with pytest.raises(StoragePermissionError) as caught:
            write_something("a/b", b"")
        assert "/sys" in str(caught.value.hint)
        assert "'a/b'" in caught.value.message


def test_the_hint_names_the_folder_whether_it_or_a_file_in_it_is_shut(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "file"):
        error = classify(PermissionError(errno.EACCES, "", os.fsencode(path)), "k")
        assert isinstance(error, StoragePermissionError)
        assert str(error.hint).endswith(f"'{tmp_path}'")


def test_a_root_that_is_a_file(store: LocalFiles, root: Path) -> None:
    root.write_bytes(b"")
    for write_something in (store.put, store.put_if_absent):
        with pytest.raises(StorageError) as caught:
            write_something("a/b", b"")
        assert type(caught.value) is StorageError
        assert "is a file" in str(caught.value.hint)
    assert list(store.list()) == []
    assert store.head("a") is None


def test_a_target_below_a_file(store: LocalFiles) -> None:
    store.put("source", b"")
    store.put("file", b"")
    with pytest.raises(StorageError, match="is a file") as caught:
        store.rename("source", "file/x")
    assert type(caught.value) is StorageError
    assert [meta.key for meta in store.list()] == ["file", "source"]


def test_a_key_that_is_a_folder(store: LocalFiles, root: Path) -> None:
    store.put("a/b", b"")
    for write_something in (store.put, store.put_if_absent):
        with pytest.raises(StorageError, match="a folder has this name"):
            write_something("a", b"")
    assert files(root) == ["a/b"]


def test_a_name_too_long(store: LocalFiles) -> None:
    store.put("other", b"")
    for name in ("n" * 256, "漢" * 86):
        for act in (store.get, store.head, store.delete, lambda key: store.put(key, b"")):
            with pytest.raises(StorageError, match="shorten"):
                act(name)


@pytest.mark.parametrize("method", ["put", "put_if_absent"])
def test_a_full_disk_leaves_nothing_behind(
    store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    store.put("other", b"")

    def no_space(_: int) -> None:
        descriptor = os.open("/dev/full", os.O_WRONLY)
        try:
            os.write(descriptor, b"x")
        finally:
            os.close(descriptor)

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageFullError) as caught:
        getattr(store, method)("k", b"12345")
    assert caught.value.error_class == "capacity"
    assert caught.value.hint
    assert files(root) == ["other"]


def test_no_file_handles_left(store: LocalFiles, root: Path) -> None:
    script = (
        "import os, resource, sys; from pathlib import Path; from deltasql.storage.local import LocalFiles\n"
        "store = LocalFiles(Path(sys.argv[1])); store.put('a', b'')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "names = []\n"
        "for act in (lambda: store.put('b', b''), lambda: store.get('a'), lambda: list(store.list())):\n"
        "    try: act()\n"
        "    except Exception as error: names.append(type(error).__name__)\n"
        "print(names)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True)
    assert done.stdout == f"{['StorageUnavailableError'] * 3}\n", done.stderr
    assert files(root) == ["a"]


def test_an_interrupted_write_leaves_nothing_behind(
    store: LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("other", b"")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put("k", b"")
    assert files(root) == ["other"]
