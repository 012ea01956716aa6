"""Hostile names and values: what is accepted comes back exactly; what is refused is named, and changes nothing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from deltasql.errors import InvalidInputError, VersionNotFoundError
from deltasql.ledger.contracts import TableEntry
from deltasql.protocol.actions import Action, Metadata, UnknownAction
from deltasql.protocol.jsonlog import decode_commit
from hostile_values import DEEP, HOSTILE, LONE, LONG, deep
from ledger_backends import LedgerUnderTest
from ledger_held import held_open
from ledger_samples import METADATA, add, creation, domain, draft, location, paths, remove, txn

pytestmark = pytest.mark.contract


@pytest.fixture
def ledger(ledger: LedgerUnderTest) -> Iterator[LedgerUnderTest]:
    with held_open(ledger):
        yield ledger


def last(ledger: LedgerUnderTest, table: TableEntry) -> list[Action]:
    """The actions of the newest commit, which its bytes and the reader agree on."""
    version = ledger.reader.head(table).version
    (commit,) = ledger.reader.commits(table, version, version)
    assert decode_commit(commit.encode() or b"") == list(commit.actions)
    return list(commit.actions)[1:]


# ---------------------------------------------------------------- accepted


def test_hostile_text_is_only_text(ledger: LedgerUnderTest) -> None:
    for number, text in enumerate(HOSTILE.values()):
        check_text(ledger, ledger.create(f"t{number}", add("kept")), text)


def check_text(ledger: LedgerUnderTest, table: TableEntry, text: str) -> None:
    mapping = {text: text}
    configuration = {**METADATA.configuration, **mapping}
    actions: list[Action] = [
        msgspec.structs.replace(METADATA, name=text, description=text, configuration=configuration),
        txn(text, 7),
        domain(text, text),
        add(text, text, stats=text, tags=mapping, partition_values=mapping, extra=mapping, clustering_provider=text),
        UnknownAction("later", {"deep": [mapping]}),
    ]
    ledger.append(table, *actions, token=text, operation=text, user_metadata=text, parameters=mapping, metrics=mapping)
    assert last(ledger, table) == actions
    assert ledger.reader.version_of(table, text) == 1
    assert paths(ledger.reader.files(table, 1)) == ["kept", text]
    assert [one.app_id for one in ledger.reader.transactions(table, 1)] == [text]
    assert [one.configuration for one in ledger.reader.domains(table, 1)] == [text]
    entry = ledger.reader.history(table)[0]
    assert (entry.operation, entry.commit_info["operationParameters"]) == (text, mapping)
    assert entry.commit_info["userMetadata"] == text
    # It is found again by the same text, and by no other.
    assert ledger.append(table, add("again"), token=text) == 1
    assert ledger.append(table, add("again"), txn=txn(text, 7)) == 1
    assert ledger.reader.version_of(table, f"{text}%") is None
    assert ledger.append(table, remove(text, text)) == 2
    assert paths(ledger.reader.files(table, 2)) == ["kept"]
    ledger.outbox.mark_failed(table, 0, "class", text)
    assert ledger.outbox.status(table)[0].error == text
    ledger.outbox.quarantine(table, 0, text)
    assert ledger.outbox.mirror_head(table).quarantine_reason == text


def test_numbers_at_their_limits_come_back(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    actions = [
        txn("app", 2**63 - 1, last_updated=-(2**63)),
        add("huge", size=2**63 - 1, modification_time=-(2**63), base_row_id=2**63 - 1),
        add("negative", size=-1, modification_time=0),
        add("nested", extra={"n": 2**63 - 1, "m": -(2**63), "f": 1.7976931348623157e308, "z": -0.0, "t": 5e-324}),
    ]
    ledger.append(table, *actions)
    assert last(ledger, table) == actions


STATS = {
    "1,000 deep": DEEP,
    "not a number": '{"minValues":{"a":NaN,"b":-Infinity}}',
    "a key twice": '{"a":1,"a":2}',
    "a number that no float holds": '{"a":1.00000000000000000000000000001,"b":1e400}',
    "no JSON at all": "\\'\"]}",
    "empty": "",
    "a megabyte": json.dumps({"minValues": {"a": "ü" * 500_000}}, ensure_ascii=False),
}


def test_statistics_are_kept_letter_for_letter(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    for kind, stats in STATS.items():
        ledger.append(table, add(kind, stats=stats))
        assert last(ledger, table) == [add(kind, stats=stats)]
    (files,) = ledger.reader.files(table, len(STATS))
    assert files.column("stats").to_pylist() == list(STATS.values())


def test_a_path_of_any_bytes_is_kept(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    path = quote(random.Random(5).randbytes(3_000), safe="")
    assert len(path) > 6_000
    ledger.append(table, add(path), add(path[:-1]), add(path.lower()))
    ledger.append(table, remove(path))
    assert paths(ledger.reader.files(table, 2)) == [path[:-1], path.lower()]


def test_a_schema_of_ten_megabytes_is_kept(ledger: LedgerUnderTest) -> None:
    text = random.Random(5).randbytes(5_000_000).hex()
    table = ledger.create("t", msgspec.structs.replace(METADATA, schema_string=text))
    ledger.append(table, add("a"))
    assert ledger.reader.state(table).metadata.schema_string == text


# ---------------------------------------------------------------- refused


class Refusal(msgspec.Struct):
    """A commit that must not be, and the field that its error names."""

    field: str
    actions: tuple[Any, ...] = ()
    values: dict[str, Any] = {}


REFUSED = {
    "NUL in a path": Refusal("actions[1]", (add("a\0b"),)),
    "NUL in statistics": Refusal("actions[1]", (add("a", stats="\0"),)),
    "NUL in an application": Refusal("actions[1]", (txn("\0"),)),
    "NUL in a domain": Refusal("actions[1]", (domain("a\0"),)),
    "NUL in a domain's settings": Refusal("actions[1]", (domain("a", "\0"),)),
    "NUL in a description": Refusal("actions[1]", (msgspec.structs.replace(METADATA, description="\0"),)),
    "NUL in an unknown action": Refusal("actions[1]", (UnknownAction("a\0", {}),)),
    "NUL in a vector": Refusal("actions[1]", (add("a", "v\0"),)),
    "NUL in a removed vector": Refusal("actions[1]", (remove("kept", "v\0"),)),
    "NUL in a token": Refusal("token", (), {"token": "a\0"}),
    "NUL in an operation": Refusal("operation", (), {"operation": "a\0"}),
    "a lone surrogate in a path": Refusal("actions[1]", (add(LONE),)),
    "a lone surrogate in a partition": Refusal("action", (add("a", partition_values={"p": LONE}),)),
    "a lone surrogate in a tag": Refusal("action", (add("a", tags={LONE: "x"}),)),
    "a lone surrogate in what is not known": Refusal("action", (add("a", extra={"x": [LONE]}),)),
    "a lone surrogate in a vector": Refusal("actions[1]", (add("a", LONE),)),
    "a lone surrogate in a parameter": Refusal("action", (), {"parameters": {"p": LONE}}),
    "a lone surrogate for the user": Refusal("action", (), {"user_metadata": LONE}),
    "a token too long": Refusal("token", (), {"token": LONG}),
    "an operation too long": Refusal("operation", (), {"operation": LONG}),
    "an application too long": Refusal("actions[1]", (txn(LONG),)),
    "an application too long, by its count": Refusal("actions[1]", (), {"txn": txn(LONG)}),
    "a domain too long": Refusal("actions[1]", (domain(LONG),)),
    "a location too long": Refusal("location", (), {"create_at": "memory://" + "x" * 2_000}),
    "1,000 deep in what is not known": Refusal("actions[1]", (add("a", extra=deep()),)),
    "1,000 deep in an unknown action": Refusal("actions[1]", (UnknownAction("later", deep()),)),
    "1,000 deep in a parameter": Refusal("action", (), {"parameters": deep()}),
    "a size of 65 bits": Refusal("actions[1]", (add("a", size=2**63),)),
    "a size of 65 bits below zero": Refusal("actions[1]", (add("a", size=-(2**63) - 1),)),
    "a count of 65 bits": Refusal("actions[1]", (txn("app", 2**63),)),
    "a version before the first": Refusal("read_version", (), {"read_version": -1}),
    "the last version there can be": Refusal("read_version", (), {"read_version": 2**63 - 1}),
    "half a version": Refusal("read_version", (), {"read_version": 0.5}),
    "a version as text": Refusal("read_version", (), {"read_version": "0"}),
    "a flag as a version": Refusal("read_version", (), {"read_version": True}),
    "a version of 65 bits": Refusal("read_version", (), {"read_version": 2**63}),
}


def check_refused(ledger: LedgerUnderTest, refusal: Refusal) -> None:
    make, name = (creation, "new") if "create_at" in refusal.values else (draft, "t")
    before = ledger.facts()
    with pytest.raises(InvalidInputError) as caught:
        ledger.writer.commit([make(name, add("fine"), *refusal.actions, **refusal.values)])
    assert caught.value.field == refusal.field
    assert caught.value.hint
    assert len(str(caught.value)) < 500
    assert ledger.facts() == before


def test_what_no_ledger_can_keep_is_refused_by_name(ledger: LedgerUnderTest) -> None:
    ledger.append(ledger.create("t", add("kept")), add("more"))
    for refusal in REFUSED.values():
        check_refused(ledger, refusal)


NOT_FINITE = {
    "not a number in what is not known": Refusal("actions[1]", (add("a", extra={"x": math.nan}),)),
    "infinity in what is not known": Refusal("actions[1]", (add("a", extra={"x": [-math.inf]}),)),
    "not a number in a parameter": Refusal("parameters", (), {"parameters": {"p": math.nan}}),
}


@pytest.mark.parametrize("kind", NOT_FINITE)
def test_what_would_not_come_back_as_it_was_is_refused_by_name(ledger: LedgerUnderTest, kind: str) -> None:
    ledger.append(ledger.create("t", add("kept")), add("more"))
    check_refused(ledger, NOT_FINITE[kind])


def test_versions_that_cannot_be_are_not_found(ledger: LedgerUnderTest) -> None:
    table = ledger.create()
    for version in (-1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**100):
        with pytest.raises(VersionNotFoundError) as caught:
            ledger.reader.state(table, version)
        assert caught.value.field == "version"
        assert list(ledger.reader.commits(table, version, version)) == []


@pytest.mark.parametrize("time", [2**63, 2**100, -(2**63) - 1])
def test_any_instant_has_an_answer(ledger: LedgerUnderTest, time: int) -> None:
    table = ledger.create()
    if time > 0:
        assert ledger.reader.version_at(table, time) == 0
    else:
        with pytest.raises(VersionNotFoundError):
            ledger.reader.version_at(table, time)


@pytest.mark.parametrize("limit", [-1, 2**63])
def test_a_limit_that_cannot_be_is_refused_by_name(ledger: LedgerUnderTest, limit: int) -> None:
    table = ledger.create()
    with pytest.raises(InvalidInputError) as caught:
        ledger.reader.history(table, limit)
    assert caught.value.field == "limit"


def test_any_error_can_be_noted(ledger: LedgerUnderTest) -> None:
    """The text is that of any exception: a file's name in it may be no valid Unicode."""
    for number, text in enumerate(("a\0b", LONE)):
        table = ledger.create(f"t{number}")
        ledger.outbox.mark_failed(table, 0, "StorageError", text)
        assert ledger.outbox.status(table)[0].state == "FAILED"
        ledger.outbox.quarantine(table, 0, text)
        assert ledger.outbox.mirror_head(table).quarantined


def test_metadata_may_say_anything(ledger: LedgerUnderTest) -> None:
    everything = "".join(HOSTILE.values())
    said = Metadata(id=everything, schema_string=everything, partition_columns=(everything,), configuration={})
    ledger.commit(creation("t", said, create_at=location("t")))
    assert ledger.reader.state(ledger.reader.table("t")).metadata == said
