"""Commit files: canonical bytes out, every spelling in."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import InvalidInputError, MalformedLogError
from deltasql.protocol.actions import (
    AddCdcFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
    UnknownAction,
)
from deltasql.protocol.jsonlog import decode_commit, encode_action, encode_commit

pytestmark = pytest.mark.unit

VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6
)

# Each line as Delta Spark spells it.
LINES = {
    "commitInfo": (
        CommitInfo({"timestamp": 1, "operation": "WRITE", "operationParameters": {"description": None}}),
        '{"commitInfo":{"timestamp":1,"operation":"WRITE","operationParameters":{"description":null}}}',
    ),
    "metaData": (
        Metadata(
            id="i",
            name="n",
            description="d",
            format=Format(),
            schema_string='{"type":"struct","fields":[]}',
            partition_columns=("p",),
            configuration={"b": "1", "a": "2"},
            created_time=7,
        ),
        (
            '{"metaData":{"id":"i","name":"n","description":"d","format":{"provider":"parquet","options":{}},'
            '"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":["p"],'
            '"configuration":{"b":"1","a":"2"},"createdTime":7}}'
        ),
    ),
    "protocol": (
        TableProtocol(min_reader_version=3, min_writer_version=7, reader_features=("a",), writer_features=("a", "b")),
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a"],"writerFeatures":["a","b"]}}',
    ),
    "legacy protocol": (
        TableProtocol(min_reader_version=1, min_writer_version=2),
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    ),
    "txn": (
        SetTransaction(app_id="app", version=3, last_updated=9),
        '{"txn":{"appId":"app","version":3,"lastUpdated":9}}',
    ),
    "domainMetadata": (
        DomainMetadata(domain="d", configuration="{}", removed=False),
        '{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}',
    ),
    "add": (
        AddFile(
            path="a%20b",
            partition_values={"p": None, "q": "x"},
            size=1,
            modification_time=2,
            data_change=True,
            stats='{"numRecords":1}',
            tags={"t": "u"},
            deletion_vector=VECTOR,
            base_row_id=0,
            default_row_commit_version=5,
            clustering_provider="liquid",
        ),
        (
            '{"add":{"path":"a%20b","partitionValues":{"p":null,"q":"x"},"size":1,"modificationTime":2,"dataChange":true,'
            '"stats":"{\\"numRecords\\":1}","tags":{"t":"u"},"deletionVector":{"storageType":"u",'
            '"pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6},"baseRowId":0,'
            '"defaultRowCommitVersion":5,"clusteringProvider":"liquid"}}'
        ),
    ),
    "plain add": (
        AddFile(path="a", size=1, modification_time=2, data_change=False),
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":false}}',
    ),
    "remove": (
        RemoveFile(
            path="a",
            deletion_timestamp=1,
            data_change=True,
            extended_file_metadata=True,
            partition_values={},
            size=3,
            tags={},
            deletion_vector=VECTOR,
            base_row_id=1,
            default_row_commit_version=2,
            stats="{}",
        ),
        (
            '{"remove":{"path":"a","deletionTimestamp":1,"dataChange":true,"extendedFileMetadata":true,'
            '"partitionValues":{},"size":3,"tags":{},"deletionVector":{"storageType":"u",'
            '"pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6},"baseRowId":1,'
            '"defaultRowCommitVersion":2,"stats":"{}"}}'
        ),
    ),
    "cdc": (
        AddCdcFile(path="c", partition_values={"p": "1"}, size=4, data_change=False, tags={"x": None}),
        '{"cdc":{"path":"c","partitionValues":{"p":"1"},"size":4,"dataChange":false,"tags":{"x":null}}}',
    ),
    "unknown action": (UnknownAction("novelty", [1, {"a": None}]), '{"novelty":[1,{"a":null}]}'),
}


@pytest.mark.parametrize("name", LINES)
def test_each_action_is_spelled_as_delta_spark_spells_it(name: str) -> None:
    action, line = LINES[name]
    assert encode_action(action).decode() == line + "\n"
    assert decode_commit(line.encode()) == [action]


def test_control_characters_are_written_in_upper_case_and_text_that_looks_like_them_is_not() -> None:
    action = SetTransaction(app_id="\x1f\x0b\n\t\x7f \\u001f é 😀", version=1)
    line = encode_action(action)
    assert line == '{"txn":{"appId":"\\u001F\\u000B\\n\\t\x7f \\\\u001f é 😀","version":1}}\n'.encode()
    assert decode_commit(line) == [action]


def test_statistics_keep_their_own_spelling() -> None:
    stats = '{"numRecords":1.0,"minValues":{"s":"\\u001f","n":1E400}}'
    action = AddFile(path="a", size=1, modification_time=1, data_change=True, stats=stats)
    (decoded,) = decode_commit(encode_action(action))
    assert isinstance(decoded, AddFile)
    assert decoded.stats == stats


def test_unknown_fields_come_out_again_behind_the_known_ones() -> None:
    line = (
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true,'
        b'"deletionVector":{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1,"later":[1]},'
        b'"future":{"b":1,"a":null}}}\n'
    )
    assert encode_commit(decode_commit(line)) == line


def test_unknown_fields_of_every_action_are_kept() -> None:
    for _, line in LINES.values():
        body = orjson.loads(line)
        (name,) = body
        if isinstance(body[name], dict):
            body[name]["zz"] = {"later": 1}
            spelled = orjson.dumps(body) + b"\n"
            assert encode_commit(decode_commit(spelled)) == spelled


def test_what_other_writers_do_is_accepted() -> None:
    text = (
        b'\n{"txn": {"appId": "a", "version": 1, "lastUpdated": null}, "add": null}\r\n'
        b"   \n"
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":null}}'
    )
    assert decode_commit(text) == [
        SetTransaction(app_id="a", version=1),
        TableProtocol(min_reader_version=1, min_writer_version=2),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b'{"add":{"path":"a"', "not JSON"),
        (b"[]", "a JSON object is expected"),
        (b'"add"', "a JSON object is expected"),
        (b"{}", "one action a line"),
        (b'{"txn":{"appId":"a","version":1},"add":{}}', "one action a line"),
        (b'{"add":[]}', "add must be an object"),
        (b'{"add":{"path":"a","size":1,"modificationTime":1}}', "dataChange is missing"),
        (b'{"add":{"path":1,"size":1,"modificationTime":1,"dataChange":true}}', "path has the wrong type int"),
        (b'{"add":{"path":"a","size":true,"modificationTime":1,"dataChange":true}}', "size has the wrong type bool"),
        (b'{"add":{"path":"a","size":1.5,"modificationTime":1,"dataChange":true}}', "size has the wrong type float"),
        (
            b'{"add":{"path":"a","partitionValues":{"p":1},"size":1,"modificationTime":1,"dataChange":true}}',
            "partitionValues.p",
        ),
        (b'{"add":{"path":"a","size":1,"modificationTime":1,"dataChange":true,"stats":{}}}', "stats has the wrong"),
        (b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[1]}}', "writerFeatures"),
        (b'{"txn":{"appId":"a","appId":"b","version":1}}', "'appId' stands twice"),
        (b'{"txn":{"appId":"a","version":1},"txn":{"appId":"a","version":1}}', "'txn' stands twice"),
        (b'{"txn":{"appId":"\xff","version":1}}', "not JSON"),
        (b'{"txn":' * 3000 + b"1" + b"}" * 3000, "not JSON"),
    ],
)
def test_a_malformed_line_is_a_typed_error_that_names_the_line(line: bytes, says: str) -> None:
    with pytest.raises(MalformedLogError) as caught:
        decode_commit(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n' + line, source="0007.json")
    assert says in caught.value.message
    assert "0007.json, line 2" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("value", ["\ud800", {"a": 2**64}, object()])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        encode_action(CommitInfo({"x": value}))
    assert caught.value.hint


texts = st.text(st.characters(exclude_categories=["Cs"]))
maps = st.dictionaries(texts, st.none() | texts, max_size=3)
longs = st.integers(-(2**63), 2**63 - 1)
vectors = st.builds(
    DeletionVector,
    storage_type=texts,
    path_or_inline_dv=texts,
    offset=st.none() | longs,
    size_in_bytes=longs,
    cardinality=longs,
)
actions = st.one_of(
    st.builds(
        AddFile,
        path=texts,
        partition_values=maps,
        size=longs,
        modification_time=longs,
        data_change=st.booleans(),
        stats=st.none() | texts,
        tags=st.none() | maps,
        deletion_vector=st.none() | vectors,
        base_row_id=st.none() | longs,
    ),
    st.builds(
        RemoveFile,
        path=texts,
        deletion_timestamp=st.none() | longs,
        data_change=st.booleans(),
        extended_file_metadata=st.none() | st.booleans(),
        partition_values=st.none() | maps,
        size=st.none() | longs,
    ),
    st.builds(SetTransaction, app_id=texts, version=longs, last_updated=st.none() | longs),
    st.builds(DomainMetadata, domain=texts, configuration=texts, removed=st.booleans()),
    st.builds(AddCdcFile, path=texts, partition_values=maps, size=longs, data_change=st.booleans()),
)


@given(st.lists(actions, max_size=5))
def test_decoding_undoes_encoding_and_encoding_again_gives_the_same_bytes(commit: list[object]) -> None:
    data = encode_commit(commit)  # pyright: ignore[reportArgumentType]
    assert decode_commit(data) == commit
    assert encode_commit(decode_commit(data)) == data
    assert data.count(b"\n") == len(commit)
