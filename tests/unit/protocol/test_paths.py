"""Names in a table's folder. Escapes are those that Hadoop's `Path` and Java's `URI` give for the same text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import InvalidInputError
from deltasql.protocol.paths import (
    MAX_VERSION,
    LogFile,
    check_relative,
    checkpoint_name,
    checkpoint_part_name,
    checkpoint_v2_name,
    checksum_name,
    commit_name,
    compaction_name,
    decode_path,
    encode_path,
    is_absolute,
    parse_log_name,
)

pytestmark = pytest.mark.unit

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
SEVEN = "00000000000000000007"


def test_names_of_log_files() -> None:
    assert commit_name(7) == f"{SEVEN}.json"
    assert checkpoint_name(7) == f"{SEVEN}.checkpoint.parquet"
    assert checkpoint_part_name(7, 1, 3) == f"{SEVEN}.checkpoint.0000000001.0000000003.parquet"
    assert checkpoint_v2_name(7, UUID) == f"{SEVEN}.checkpoint.{UUID}.parquet"
    assert checkpoint_v2_name(7, UUID, "json") == f"{SEVEN}.checkpoint.{UUID}.json"
    assert checksum_name(7) == f"{SEVEN}.crc"
    assert compaction_name(7, 9) == f"{SEVEN}.00000000000000000009.compacted.json"
    assert commit_name(MAX_VERSION) == "09223372036854775807.json"


@pytest.mark.parametrize("version", [-1, MAX_VERSION + 1])
def test_a_version_outside_its_bounds_is_refused(version: int) -> None:
    for name in (commit_name, checkpoint_name, checksum_name):
        with pytest.raises(InvalidInputError) as caught:
            name(version)
        assert caught.value.field == "version"


@pytest.mark.parametrize(("part", "parts"), [(0, 3), (4, 3), (1, 0)])
def test_a_part_that_cannot_be_is_refused(part: int, parts: int) -> None:
    with pytest.raises(InvalidInputError):
        checkpoint_part_name(7, part, parts)


def test_a_compaction_covers_two_versions_or_more() -> None:
    with pytest.raises(InvalidInputError):
        compaction_name(7, 7)


def test_a_v2_checkpoint_needs_a_uuid() -> None:
    with pytest.raises(InvalidInputError):
        checkpoint_v2_name(7, "../../x")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (f"{SEVEN}.json", LogFile(kind="commit", version=7)),
        (f"{SEVEN}.crc", LogFile(kind="checksum", version=7)),
        (f"{SEVEN}.checkpoint.parquet", LogFile(kind="checkpoint", version=7)),
        (
            f"{SEVEN}.checkpoint.0000000002.0000000003.parquet",
            LogFile(kind="checkpoint", version=7, part=2, parts=3),
        ),
        (f"{SEVEN}.checkpoint.{UUID}.parquet", LogFile(kind="checkpoint", version=7, uuid=UUID)),
        (f"{SEVEN}.checkpoint.{UUID}.json", LogFile(kind="checkpoint", version=7, uuid=UUID)),
        (
            f"{SEVEN}.00000000000000000009.compacted.json",
            LogFile(kind="compaction", version=7, end_version=9),
        ),
        ("09223372036854775807.json", LogFile(kind="commit", version=MAX_VERSION)),
    ],
)
def test_a_name_says_what_a_file_is(name: str, file: LogFile) -> None:
    assert parse_log_name(name) == file


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "",
        "7.json",
        "000000000000000000007.json",
        f"{SEVEN}.json ",
        f"{SEVEN}.json\n",
        f".{SEVEN}.json.crc",
        f"{SEVEN}.json#1",
        f"{SEVEN}.{UUID}.json",
        f"{SEVEN}.tmp",
        f"{SEVEN}.checkpoint.json",
        f"{SEVEN}.checkpoint.tmp.parquet",
        f"{SEVEN}.checkpoint.0000000000.0000000003.parquet",
        f"{SEVEN}.checkpoint.0000000004.0000000003.parquet",
        f"{SEVEN}.checkpoint.0000000001.9999999999.parquet",
        f"{SEVEN}.00000000000000000007.compacted.json",
        f"{SEVEN}.00000000000000000006.compacted.json",
        "09223372036854775808.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.json",
    ],
)
def test_other_names_are_not_the_protocols(name: str) -> None:
    assert parse_log_name(name) is None


@given(st.integers(0, MAX_VERSION))
def test_a_name_reads_back(version: int) -> None:
    assert parse_log_name(commit_name(version)) == LogFile(kind="commit", version=version)
    assert parse_log_name(checkpoint_name(version)) == LogFile(kind="checkpoint", version=version)
    assert parse_log_name(checksum_name(version)) == LogFile(kind="checksum", version=version)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("p=a b/x", "p=a%20b/x"),
        ("p=a%3Ab/x", "p=a%253Ab/x"),
        ('p=%22"#?<>\\^`{|}[]', "p=%2522%22%23%3F%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
        ("p=~!@$&'()*_+-;,.=", "p=~!@$&'()*_+-;,.="),
        ("p=é ü😀", "p=é%20ü😀"),
        ("d/a:b", "d/a:b"),
        ("d/\x01\t\n\x7f", "d/%01%09%0A%7F"),
        # Beyond ASCII, Java escapes what it counts as space or control character and leaves the rest.
        ("d/\x85\xa0\u2003\u2028\u3000\u00ad\ufeff", "d/%C2%85%C2%A0%E2%80%83%E2%80%A8%E3%80%80\u00ad\ufeff"),
        # Java would take this for a scheme and refuse it.
        ("a:b/c:d", "a%3Ab/c:d"),
    ],
)
def test_a_path_is_escaped_as_java_does_it(key: str, path: str) -> None:
    assert encode_path(key) == path
    assert decode_path(path) == key


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_path_decodes_to_its_key(key: str) -> None:
    assert decode_path(encode_path(key)) == key


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_an_encoded_path_is_absolute_only_with_a_leading_slash(key: str) -> None:
    assert is_absolute(encode_path(key)) == key.startswith("/")


@pytest.mark.parametrize("path", ["a%", "a%2", "a%zz", "%FF", "a\udc00"])
def test_a_path_that_is_no_uri_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        decode_path(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize("path", ["/a", "s3://bucket/a", "file:/a", "abfss://c@h/a", "C:\\a", "//host/a"])
def test_absolute_paths(path: str) -> None:
    assert is_absolute(path)


@pytest.mark.parametrize("path", ["a", "a/b:c", "p=x:y", "1a:b", ".", "", "a%3Ab"])
def test_relative_paths(path: str) -> None:
    assert not is_absolute(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../a",
        "a/../../b",
        "a/..",
        "./a",
        "a//b",
        "a/",
        "%2e%2e/a",
        "%2E%2E%2Fa",
        "a/.%2e/b",
        "..%2fa",
        "%2Fetc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://other/a",
        "C:/a",
        "..\\a",
        "a%5c..%5cb",
        "a\0b",
        "a%00b",
        "a?b",
        "a#b",
        "a%",
        "a\udc00",
        "_delta_log/00000000000000000000.json",
        "%5Fdelta_log/00000000000000000000.json",
        "_Delta_Log/00000000000000000000.json",
    ],
)
def test_a_path_that_leaves_the_tables_data_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_relative(path)
    assert caught.value.field == "path"
    assert caught.value.hint


@pytest.mark.parametrize(
    "path", ["a", "p=../x", "p=%252e%252e/x", "_change_data/cdc-0", "p=a%20b%253A/x", "...", "a..b"]
)
def test_a_path_below_the_root_passes(path: str) -> None:
    check_relative(path)
