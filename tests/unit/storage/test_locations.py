"""How folders are written as URLs, and which store is behind one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import ConfigError, DeltaSqlError, InvalidInputError
from deltasql.storage.local import LocalFiles
from deltasql.storage.locations import join_url, local_path, normalise_url, open_store
from deltasql.storage.memory import MemoryStore

pytestmark = pytest.mark.unit

SECRET = "canary-9b1e"


class TestNormaliseUrl:
    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("file:///lake", "file:///lake"),
            ("file:///lake/", "file:///lake"),
            ("file:///lake//a///", "file:///lake/a"),
            ("file:/lake/a", "file:///lake/a"),
            ("FILE:///Lake", "file:///Lake"),
            ("file://localhost/lake", "file:///lake"),
            ("file:///my%20lake", "file:///my%20lake"),
            ("file:///my lake", "file:///my%20lake"),
            ("file:///%6Cake", "file:///lake"),
            ("file:///100%25/100%", "file:///100%25/100%25"),
            ("file:///a%2520b", "file:///a%2520b"),
            ("file:///day=1/a:b@c", "file:///day=1/a:b@c"),
            ("file:///Größe", "file:///Gr%C3%B6%C3%9Fe"),
            ("/lake", "file:///lake"),
            ("/lake/", "file:///lake"),
            ("//lake", "file:///lake"),
            ("/lake/a/../b", "file:///lake/b"),
            ("/my lake/a#b?c%20d", "file:///my%20lake/a%23b%3Fc%2520d"),
            ("memory://tests", "memory://tests"),
            ("memory://Tests/a b/%63/", "memory://Tests/a%20b/c"),
        ],
    )
    def test_a_folder_is_written_in_one_way(self, url: str, expected: str) -> None:
        assert normalise_url(url) == expected
        assert normalise_url(expected) == expected

    @pytest.mark.parametrize("path", ["lake", "./lake", "lake/", "../{here}/lake", "a/../lake"])
    def test_a_relative_path_starts_at_the_working_folder(
        self, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert normalise_url(path.format(here=tmp_path.name)) == f"file://{tmp_path}/lake"

    def test_a_path_with_a_colon_is_a_path_when_it_looks_like_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert normalise_url("./s3:lake") == f"file://{tmp_path}/s3:lake"

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "  ",
            "/",
            "//",
            "file:///",
            "file:////",
            "file://",
            "file:",
            "file:lake",
            "file://lake",
            "file://host/lake",
            "file:///a/../b",
            "file:///a/%2e%2e/b",
            "file:///a/./b",
            "file:///a%2Fb",
            "file:///a%00b",
            "file:///a\0b",
            "/a\0b",
            "file:///lake?x=1",
            "file:///lake#x",
            "~/lake",
            "~someone/lake",
            "lone\ud800",
            "file:///lone\ud800",
            "memory:",
            "memory://",
            "memory:///a",
            "memory:name",
            "memory://na me",
            "memory://..",
            "memory://name/../x",
            "memory://name/%FF",
            "s3://bucket/lake",
            "s3:bucket",
            "C:\\lake",
            "http://host/lake",
        ],
    )
    def test_what_makes_no_sense_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            normalise_url(url)
        assert caught.value.field == "root"
        assert caught.value.hint

    def test_an_unknown_scheme_is_named_beside_the_known_ones(self) -> None:
        with pytest.raises(ConfigError, match=r"'s3' is not known → .*file:///.*memory://"):
            normalise_url("s3://bucket/lake")

    @pytest.mark.parametrize(
        "url",
        [
            "s3://id:{}@bucket/lake",
            "s3://bucket/lake?signature={}",
            "{}:x",
            "file://id:{}@host/lake",
            "file://{}@/lake",
            "file:///lake?token={}",
            "file:///lake/../{}",
            "memory://id:{}@name",
            "https://host/lake?sig={}",
            "{}\0",
            "{}\ud800",
            "file:///{}\ud800",
        ],
    )
    def test_credentials_are_refused_and_never_repeated(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            normalise_url(url.format(SECRET))
        assert SECRET not in f"{caught.value} {caught.value.as_dict()} {caught.value.__cause__!r}"

    def test_credentials_are_called_by_their_name(self) -> None:
        with pytest.raises(ConfigError, match="credentials"):
            normalise_url(f"file://id:{SECRET}@host/lake")

    def test_a_working_folder_that_is_gone_is_said(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(ConfigError, match="working folder"):
            normalise_url("lake")

    @given(
        st.sampled_from(["", "/", "file:", "file:/", "file:///", "memory://a"]), st.text() | st.text("/.%2eEfF?#@~ ")
    )
    def test_any_text_is_refused_or_normalised_for_good(self, start: str, rest: str) -> None:
        try:
            url = normalise_url(start + rest)
        except ConfigError:
            return
        assert normalise_url(url) == url == open_store(url).url
        assert url.isascii()


class TestJoinUrl:
    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            (["sales", "orders"], "file:///lake/sales/orders"),
            ([], "file:///lake"),
            (["my table"], "file:///lake/my%20table"),
            (["100%", "%2F", "a#b?c"], "file:///lake/100%25/%252F/a%23b%3Fc"),
            (["day=1", "..."], "file:///lake/day=1/..."),
            (["漢"], "file:///lake/%E6%BC%A2"),
        ],
    )
    def test_each_part_is_one_folder(self, parts: list[str], expected: str) -> None:
        assert join_url("file:///lake", *parts) == expected
        assert join_url("file:///lake/", *parts) == expected

    @pytest.mark.parametrize("part", ["", ".", "..", "a/b", "/", "a\0b", "lone\ud800"])
    def test_what_cannot_be_one_folder_is_refused(self, part: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            join_url("file:///lake", "fine", part)
        assert caught.value.field == "name"
        assert caught.value.hint

    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=3))
    def test_the_folder_on_disk_has_the_names_that_were_joined(self, parts: list[str]) -> None:
        try:
            url = join_url("file:///lake", *parts)
        except InvalidInputError:
            assert any(part in {".", ".."} or "/" in part or "\0" in part for part in parts)
        else:
            assert normalise_url(url) == url
            path = local_path(url)
            assert path is not None
            assert os.fsencode(path) == "/".join(["/lake", *parts]).encode()


class TestLocalPath:
    def test_a_file_url_and_a_path_have_one(self) -> None:
        assert local_path("file:///my%20lake/a%2520b") == Path("/my lake/a%20b")
        assert local_path("/my lake") == Path("/my lake")

    @pytest.mark.parametrize("url", ["memory://tests", "s3://bucket/x"])
    def test_others_have_none(self, url: str) -> None:
        assert local_path(url) is None

    def test_names_that_are_not_unicode_survive(self) -> None:
        path = Path(os.fsdecode(b"/lake/\xff"))
        url = normalise_url(str(path))
        assert url == "file:///lake/%FF"
        assert local_path(url) == path

    def test_a_bad_url_is_refused(self) -> None:
        with pytest.raises(ConfigError):
            local_path("file://host/lake")


class TestOpenStore:
    def test_local_files_and_nothing_is_touched_before_the_first_put(self, tmp_path: Path) -> None:
        store = open_store(f"{tmp_path}/my lake/")
        assert isinstance(store, LocalFiles)
        assert store.url == f"file://{tmp_path}/my%20lake"
        assert list(store.list()) == []
        assert list(tmp_path.iterdir()) == []
        store.put("a", b"1")
        assert (tmp_path / "my lake/a").read_bytes() == b"1"

    def test_a_store_opened_by_its_own_url_is_the_same_folder(self, tmp_path: Path) -> None:
        first = open_store(str(tmp_path / "100% a#b"))
        first.put("k", b"1")
        assert open_store(first.url).get("k") == b"1"

    def test_memory_is_one_place_per_name_with_folders_inside(self) -> None:
        open_store("memory://locations-a").put("sales/or ders/k", b"1")
        table = open_store("memory://locations-a/sales/or%20ders")
        assert isinstance(table, MemoryStore)
        assert table.url == "memory://locations-a/sales/or%20ders"
        assert table.get("k") == b"1"
        assert list(open_store("memory://locations-b").list()) == []

    @pytest.mark.parametrize("url", ["file:///lake", "memory://tests"])
    def test_unknown_options_are_named_without_their_values(self, url: str) -> None:
        with pytest.raises(ConfigError, match="secret_key") as caught:
            open_store(url, {"secret_key": SECRET})
        assert caught.value.field == "storage_options"
        assert SECRET not in str(caught.value)
        open_store(url, {})

    @pytest.mark.parametrize("url", ["", "s3://bucket/x", "gs://bucket", "az://a/b", "file://host/x"])
    def test_what_is_not_known_is_refused(self, url: str) -> None:
        with pytest.raises(DeltaSqlError) as caught:
            open_store(url)
        assert isinstance(caught.value, ConfigError)
