"""Any history, at any version: the ledger's answers are those of replaying its commits as the protocol says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasql.ledger.contracts import AdoptedCommit, TableEntry
from deltasql.protocol.actions import Action, AddFile, RemoveFile
from deltasql.protocol.files import DELETION_VECTOR, FILES, TOMBSTONES
from deltasql.protocol.replay import Replay
from ledger_backends import LedgerUnderTest
from ledger_held import held_open
from ledger_samples import PROTOCOL, add, domain, location, metadata, remove, txn

pytestmark = pytest.mark.contract

PATHS = ("a", "b", "c", "d")
Key = tuple[str, str | None]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Action]]:
    """Commits after the first: files come, go, come back, are described anew, and change their deletion vectors."""
    live: set[Key] = set()
    commits: list[list[Action]] = []
    for version in range(draw(st.integers(1, 7))):
        commit: list[Action] = []
        for path in draw(st.lists(st.sampled_from(PATHS), unique=True)):
            commit += draw(changes(path, live, version))
        for app in draw(st.sets(st.sampled_from("xyz"), max_size=2)):
            commit.append(txn(app, version, last_updated=draw(st.sampled_from([None, version]))))
        for name in draw(st.sets(st.sampled_from("pq"))):
            commit.append(domain(name, str(version), removed=draw(st.booleans())))
        if draw(st.booleans()):
            commit.append(metadata(k=str(version)))
        if draw(st.booleans()):
            commit.append(PROTOCOL)
        commits.append(draw(st.permutations(commit)))
    return commits


@st.composite
def changes(draw: st.DrawFn, path: str, live: set[Key], version: int) -> list[Action]:
    """What happens to one path in one commit; `live` is kept up to date."""
    mine = sorted((key for key in live if key[0] == path), key=str)
    vectors = st.sampled_from([None, "v", "w"])
    actions: list[Action] = []
    if mine and draw(st.booleans()):
        gone = draw(st.sampled_from(mine))
        live.discard(gone)
        time = draw(st.sampled_from([None, 0, version]))
        actions.append(remove(*gone, deletion_timestamp=time, size=version))
        # The same file cannot come back in the commit that removes it.
        vectors = vectors.filter(lambda name: (path, name) != gone)
    if not actions or draw(st.booleans()):
        added = (path, draw(vectors))
        live.add(added)
        actions.append(add(*added, size=version, partition_values={"p": draw(st.sampled_from([None, "", "1"]))}))
    return actions


def row_of(action: AddFile | RemoveFile, schema: pa.Schema) -> dict[str, Any]:
    row = {name: getattr(action, name) for name in schema.names}
    for name, value in row.items():
        if isinstance(value, dict):
            row[name] = list(value.items())
    if action.deletion_vector is not None:
        row["deletion_vector"] = {name: getattr(action.deletion_vector, name) for name in DELETION_VECTOR.names}
    return row


def rows(batches: Iterable[pa.Table]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def check_every_version(ledger: LedgerUnderTest, table: TableEntry, commits: list[list[Action]]) -> None:
    reader, replay = ledger.reader, Replay()
    for version, actions in enumerate(commits):
        replay.apply(actions)
        state = reader.state(table, version)
        assert (state.protocol, state.metadata) == replay.require("the replay")
        assert rows(reader.files(table, version, batch_size=3)) == [row_of(f, FILES) for f in replay.files.values()]
        for newer_than in (-1, 0, version - 1):
            kept = [stone for stone in replay.tombstones.values() if (stone.deletion_timestamp or 0) > newer_than]
            stones = reader.tombstones(table, version, newer_than=newer_than, batch_size=3)
            assert rows(stones) == [row_of(stone, TOMBSTONES) for stone in kept]
            assert reader.count(table, version, newer_than=newer_than) == (len(replay.files), len(kept))
        assert reader.transactions(table, version) == list(replay.transactions.values())
        assert reader.domains(table, version) == [d for d in replay.domains.values() if not d.removed]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_every_version_is_the_replay_of_the_commits_up_to_it(
    ledger: LedgerUnderTest, history: list[list[Action]]
) -> None:
    with held_open(ledger):
        number = len(ledger.reader.tables())
        if number >= 10 and "duckdb" in (ledger.url or ""):
            # Each question takes it ten times as long as the others; ten histories must do.
            return
        table = ledger.create(f"written{number}")
        for actions in history:
            ledger.append(table, *actions)
        recorded = list(ledger.reader.commits(table, 0, len(history)))
        for commit, actions in zip(recorded[1:], history, strict=True):
            assert sorted(map(str, commit.actions[1:])) == sorted(map(str, actions))
        commits = [list(commit.actions) for commit in recorded]
        check_every_version(ledger, table, commits)

    # The same history found in a log, its actions in whatever order they stand there.
    found = [
        AdoptedCommit(version=commit.version, data=b"", actions=actions, timestamp=commit.timestamp)
        for commit, actions in zip(recorded, [commits[0], *history], strict=True)
    ]
    adopted = ledger.writer.adopt(f"adopted{number}", location(f"adopted{number}"), found)
    check_every_version(ledger, adopted, [list(commit.actions) for commit in found])
