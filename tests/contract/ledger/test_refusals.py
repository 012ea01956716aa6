"""What no ledger takes: names, places and actions that cannot be. Nothing is changed by the try."""

from __future__ import annotations

from typing import Any, cast

import pytest

from deltasql.errors import InvalidInputError, TableExistsError, TableNotFoundError
from deltasql.ledger.contracts import TableEntry
from deltasql.protocol.actions import Action, AddFile, CommitInfo, DeletionVector, TableProtocol, UnknownAction
from ledger_backends import LedgerUnderTest
from ledger_samples import METADATA, PROTOCOL, add, creation, domain, draft, found, location, remove, txn

pytestmark = pytest.mark.contract


def test_a_table_that_exists_is_not_created_again(ledger: LedgerUnderTest) -> None:
    ledger.create("a")
    before = ledger.facts()
    with pytest.raises(TableExistsError, match="'a'") as caught:
        ledger.writer.commit([creation("a", create_at=location("elsewhere"))])
    assert caught.value.field == "name"
    with pytest.raises(TableExistsError, match=location("a")) as caught:
        ledger.writer.commit([creation("b", create_at=location("a"))])
    assert caught.value.field == "location"
    assert ledger.facts() == before


@pytest.mark.parametrize(
    ("missing", "word"), [(METADATA, "metaData"), (PROTOCOL, "protocol")], ids=["metaData", "protocol"]
)
def test_a_table_does_not_begin_without_its_description(ledger: LedgerUnderTest, missing: Action, word: str) -> None:
    rest = [action for action in (METADATA, PROTOCOL, add("a")) if action is not missing]
    with pytest.raises(InvalidInputError, match=word):
        ledger.writer.commit([draft("t", *rest, create_at=location("t"))])
    assert ledger.reader.tables() == []


def test_a_table_that_is_not_there_is_not_found(ledger: LedgerUnderTest) -> None:
    ledger.create("t")
    for name in ("T", "tt", "t%", "_", "t.t"):
        with pytest.raises(TableNotFoundError) as caught:
            ledger.writer.commit([draft(name, add("a"))])
        assert caught.value.field == "table"
        with pytest.raises(TableNotFoundError):
            ledger.reader.table(name)


def test_an_entry_of_another_ledger_is_not_found(ledger: LedgerUnderTest) -> None:
    ledger.create("t")
    stray = TableEntry(table_id=77, name="stray", location=location("stray"))
    calls = [
        lambda: ledger.reader.head(stray),
        lambda: ledger.reader.state(stray),
        lambda: ledger.reader.state(stray, 0),
        lambda: ledger.reader.version_at(stray, 0),
        lambda: ledger.outbox.mirror_head(stray),
        lambda: ledger.outbox.unpublished(stray, 10),
    ]
    for call in calls:
        with pytest.raises(TableNotFoundError, match="stray"):
            call()


HOSTILE_NAMES = [
    *("", ".", "..", "a..b", ".a", "a.", " a", "a ", "a. b", "a/b", "../x", "a\\b", "/etc/passwd"),
    *("a\0b", "a\nb", "\x1b[2J", "a\x7f", "lone\ud800", "x" * 513),
    *(None, 5, b"t", ["t"], object),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name)[:20])
def test_what_cannot_be_a_name_is_refused(ledger: LedgerUnderTest, name: object) -> None:
    text = cast("str", name)
    whole = [found(0, METADATA, PROTOCOL, timestamp=1)]
    calls = [
        lambda: ledger.reader.table(text),
        lambda: ledger.writer.commit([draft(text, add("a"))]),
        lambda: ledger.writer.commit([creation(text, create_at=location("x"))]),
        lambda: ledger.writer.commit([creation(text, create_at=location("x"), token="t")]),
        lambda: ledger.writer.adopt(text, location("x"), whole),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.field == "name"
    assert ledger.reader.tables() == []


ODD_NAMES = ["it's; DROP TABLE dl_tables --", 'a"b`c', "%", "_", "Größe.表.😀", "a b", "NULL", "x" * 512]


def test_odd_names_are_only_names(ledger: LedgerUnderTest) -> None:
    for name in ODD_NAMES:
        ledger.append(ledger.create(name), add("a"))
    assert sorted(entry.name for entry in ledger.reader.tables()) == sorted(ODD_NAMES)
    assert {ledger.reader.head(ledger.reader.table(name)).version for name in ODD_NAMES} == {1}


@pytest.mark.parametrize("value", ["", "lone\ud800", 5, b"x", ["x"]], ids=ascii)
@pytest.mark.parametrize("field", ["token", "location", "operation"])
def test_what_cannot_be_kept_as_text_is_refused(ledger: LedgerUnderTest, field: str, value: Any) -> None:
    name = "create_at" if field == "location" else field
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit([creation("t", **{name: value})])
    assert caught.value.field == field
    assert ledger.reader.tables() == []


def test_a_location_that_cannot_be_kept_is_not_adopted(ledger: LedgerUnderTest) -> None:
    for place in ("", "lone\ud800", 5):
        with pytest.raises(InvalidInputError) as caught:
            ledger.writer.adopt("t", cast("str", place), [found(0, METADATA, PROTOCOL, timestamp=1)])
        assert caught.value.field == "location"


def with_vector(**values: Any) -> Action:
    fields = {"storage_type": "u", "path_or_inline_dv": "v", "offset": 1, "size_in_bytes": 1, "cardinality": 1}
    vector = DeletionVector(**{**fields, **values})
    return AddFile(path="a", size=1, modification_time=1, data_change=True, deletion_vector=vector)


BAD_ACTIONS: dict[str, Action] = {
    "commitInfo": CommitInfo({}),
    "no action at all": cast("Action", "add"),
    "text as a size": add("a", size="10"),
    "a boolean as a size": add("a", size=True),
    "no path": add(cast("str", None)),
    "a lone surrogate": add("lone\ud800"),
    "a number as a partition value": add("a", partition_values={"p": 1}),
    "no partition values": add("a", partition_values=None),
    "statistics as an object": add("a", stats={"numRecords": 1}),
    "a number as a tag": add("a", tags={"t": 1}),
    "65 bits": add("a", size=2**63),
    "65 bits below zero": add("a", modification_time=-(2**63) - 1),
    "65 bits in a remove": remove("a", deletion_timestamp=2**63),
    "65 bits in a transaction": txn("app", 2**63),
    "33 bits in a vector": with_vector(offset=2**31),
    "65 bits in a vector": with_vector(cardinality=2**63),
    "text in a vector": with_vector(size_in_bytes="1"),
    "33 bits in a protocol": TableProtocol(min_reader_version=2**31, min_writer_version=7),
    "71 bits in what is not known": add("a", extra={"n": 2**70}),
    "an object in what is not known": add("a", extra={"o": object()}),
    "text as a flag": domain("d", removed=cast("bool", "no")),
    "a known action as an unknown one": UnknownAction("add", {"path": "a"}),
    "an unknown action without a body": UnknownAction("later", None),
}


@pytest.mark.parametrize("name", BAD_ACTIONS)
def test_an_action_that_cannot_be_is_refused_with_its_place(ledger: LedgerUnderTest, name: str) -> None:
    ledger.create("t", add("kept"))
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit([draft("t", add("fine"), BAD_ACTIONS[name])])
    assert caught.value.field in ("actions[1]", "action")
    assert ledger.facts() == before


TWICE: dict[str, list[Action]] = {
    "two of metaData": [METADATA, METADATA],
    "two of protocol": [PROTOCOL, PROTOCOL],
    "two adds of a path": [add("a"), add("a", "v")],
    "two removes of a path": [remove("kept"), remove("kept", "v")],
    "two of an application": [txn("app", 1), txn("app", 2)],
    "two of a domain": [domain("d"), domain("d", removed=True)],
    "add and remove of one file": [remove("kept"), add("kept")],
}


@pytest.mark.parametrize("name", TWICE)
def test_what_may_stand_once_may_not_stand_twice(ledger: LedgerUnderTest, name: str) -> None:
    ledger.create("t", add("kept"))
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit([draft("t", *TWICE[name])])
    assert caught.value.field == "actions"
    assert ledger.facts() == before


MISSING: dict[str, Action] = {
    "never there": remove("never"),
    "gone already": remove("gone"),
    "another vector": remove("kept", "v"),
    "no vector any more": remove("marked"),
    "another case": remove("KEPT"),
}


@pytest.mark.parametrize("read_version", [None, 2], ids="read={}".format)
@pytest.mark.parametrize("name", MISSING)
def test_a_file_that_is_not_there_is_not_removed(ledger: LedgerUnderTest, name: str, read_version: int | None) -> None:
    table = ledger.create("t", add("kept"), add("gone"), add("marked"), add("there"))
    ledger.append(table, remove("gone"), remove("marked"), add("marked", "v"))
    ledger.append(table, txn("app"))
    before = ledger.facts()
    with pytest.raises(InvalidInputError, match="not a file of the table") as caught:
        ledger.writer.commit([draft("t", remove("there"), add("new"), MISSING[name], read_version=read_version)])
    assert caught.value.field == "actions"
    assert ledger.facts() == before
    assert ledger.append(table, remove("there"), remove("kept"), remove("marked", "v")) == 3


@pytest.mark.parametrize("read_version", [-1, 2, 2**31, 2**63, -(2**70)], ids=str)
def test_a_version_that_nobody_can_have_read_is_refused(ledger: LedgerUnderTest, read_version: int) -> None:
    table = ledger.create()
    ledger.append(table, add("a"))
    before = ledger.facts()
    with pytest.raises(InvalidInputError, match="the newest is 1") as caught:
        ledger.writer.commit([draft("t", add("b"), read_version=read_version)])
    assert caught.value.field == "read_version"
    assert ledger.facts() == before
