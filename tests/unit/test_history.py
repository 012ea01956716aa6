"""The checker of histories finds every planted bug, by its name, and nothing in histories without one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deltasql.ledger.contracts import RecordedCommit
from deltasql.protocol.actions import Action, AddFile, RemoveFile
from history import VIOLATIONS, Operation, Violation, files_of, violations
from ledger_samples import METADATA, PROTOCOL, add, remove

pytestmark = pytest.mark.unit

replace = msgspec.structs.replace


class Run(msgspec.Struct):
    """What the writers of a table noted, and what its ledger holds. A test spoils one of them."""

    history: dict[str, list[Operation]]
    ledger: list[RecordedCommit]

    def names(self) -> set[str]:
        return {violation.name for violation in self.violations()}

    def violations(self) -> list[Violation]:
        return violations(self.history, self.ledger)

    def told(self, version: int) -> tuple[str, int]:
        """Which worker was told this version, and by which of its operations."""
        return next(
            (worker, place)
            for worker, operations in self.history.items()
            for place, operation in enumerate(operations)
            if operation.version == version
        )

    def respell(self, version: int, /, **changes: Any) -> None:
        """Change what somebody was told of a version."""
        worker, place = self.told(version)
        self.history[worker][place] = replace(self.history[worker][place], **changes)

    def rewrite(self, version: int, /, **changes: Any) -> None:
        """Change what the ledger holds of a version."""
        self.ledger[version] = replace(self.ledger[version], **changes)


def recorded(version: int, *actions: Action) -> RecordedCommit:
    return RecordedCommit(
        version=version, timestamp=1_000 + version, sha256="", encoder=1, origin="written", actions=actions
    )


def operation(version: int, /, *actions: Action, **changes: Any) -> Operation:
    """An operation that was told this version, between the tenths of its own time."""
    added, removed = files_of(actions)
    fields: dict[str, Any] = {
        "kind": "append",
        "began": 10 * version,
        "ended": 10 * version + 9,
        "outcome": "committed",
        "version": version,
        "timestamp": 1_000 + version,
        "added": added,
        "removed": removed,
    }
    return Operation(**{**fields, **changes})


def clean() -> Run:
    """Five commits of two workers: create, append, append beside it, delete, overwrite of one partition."""
    commits: list[list[Action]] = [
        [PROTOCOL, METADATA],
        [add("p=1/a")],
        [add("p=2/b")],
        [remove("p=1/a"), add("p=1/c")],
        [remove("p=2/b"), add("p=2/d")],
    ]
    ada = [
        operation(0, *commits[0], kind="create"),
        operation(1, *commits[1], read_version=0),
        operation(3, *commits[3], kind="delete", read_version=1, read_files=frozenset({"p=1/a"}), scope="p=1/"),
    ]
    bob = [
        operation(2, *commits[2], read_version=0, began=5),
        operation(4, *commits[4], kind="overwrite", read_version=2, scope="p=2/", began=30),
    ]
    return Run({"ada": ada, "bob": bob}, [recorded(version, *commit) for version, commit in enumerate(commits)])


def test_a_clean_history_has_no_violations() -> None:
    assert clean().violations() == []


def test_a_history_survives_the_way_from_another_process() -> None:
    history = clean().history
    assert msgspec.json.decode(msgspec.json.encode(history), type=dict[str, list[Operation]]) == history


# ---------------------------------------------------------------- planted bugs

Bug = Callable[[Run], None]
BUGS: list[tuple[str, Bug]] = []


def plants(name: str) -> Callable[[Bug], Bug]:
    """A bug that must be found by this name."""

    def note(bug: Bug) -> Bug:
        BUGS.append((name, bug))
        return bug

    return note


@plants("versions_not_consecutive")
def a_version_is_skipped(run: Run) -> None:
    run.rewrite(4, version=5, timestamp=1_005)
    run.respell(4, version=5, timestamp=1_005)


@plants("versions_not_consecutive")
def a_version_is_there_twice(run: Run) -> None:
    run.ledger.append(run.ledger[-1])


@plants("versions_not_consecutive")
def the_history_begins_at_one(run: Run) -> None:
    run.ledger = [replace(commit, version=commit.version + 1) for commit in run.ledger]


@plants("lost_commit")
def the_last_commit_is_gone(run: Run) -> None:
    run.ledger.pop()


@plants("acknowledged_twice")
def two_writers_were_told_one_version(run: Run) -> None:
    run.history["eve"] = [operation(2, add("p=3/x"), began=5)]


@plants("altered_commit")
def another_file_was_recorded_than_acknowledged(run: Run) -> None:
    run.rewrite(2, actions=[add("p=2/b"), add("p=3/x")])


@plants("altered_commit")
def another_timestamp_was_recorded_than_acknowledged(run: Run) -> None:
    run.respell(2, timestamp=7)


@plants("altered_commit")
def two_commits_changed_places(run: Run) -> None:
    first, second = run.ledger[1], run.ledger[2]
    run.rewrite(1, actions=second.actions)
    run.rewrite(2, actions=first.actions)


@plants("unannounced_commit")
def a_commit_is_nobodys(run: Run) -> None:
    run.ledger.append(recorded(5, add("p=9/z")))


@plants("unannounced_commit")
def an_unknown_commit_landed_twice(run: Run) -> None:
    run.history["eve"] = [operation(0, add("p=9/z"), outcome="unknown", version=None, began=30, ended=99)]
    run.ledger += [recorded(5, add("p=9/z")), recorded(6, add("p=9/z"))]


@plants("refused_commit_recorded")
def a_conflict_was_written_all_the_same(run: Run) -> None:
    run.history["eve"] = [operation(0, add("p=9/z"), outcome="conflict", version=None, began=30, ended=99)]
    run.ledger.append(recorded(5, add("p=9/z")))


@plants("refused_commit_recorded")
def a_failure_was_written_all_the_same(run: Run) -> None:
    run.history["eve"] = [operation(0, add("p=9/z"), outcome="failed", version=None, began=30, ended=99)]
    run.ledger.append(recorded(5, add("p=9/z")))


@plants("timestamp_not_increasing")
def two_commits_have_one_timestamp(run: Run) -> None:
    run.rewrite(2, timestamp=1_001)
    run.respell(2, timestamp=1_001)


@plants("removed_inactive_file")
def a_file_is_removed_twice(run: Run) -> None:
    run.rewrite(4, actions=[*run.ledger[4].actions, remove("p=1/a")])


@plants("removed_inactive_file")
def a_file_is_removed_with_another_vector(run: Run) -> None:
    run.rewrite(2, actions=[add("p=2/b", "v1")])


@plants("file_active_twice")
def a_file_is_added_twice(run: Run) -> None:
    run.rewrite(4, actions=[*run.ledger[4].actions, add("p=1/c")])


@plants("file_active_twice")
def a_file_gets_a_vector_beside_itself(run: Run) -> None:
    run.rewrite(4, actions=[*run.ledger[4].actions, add("p=1/c", "v1")])


@plants("real_time_order")
def a_later_operation_got_an_earlier_version(run: Run) -> None:
    run.respell(2, began=22, ended=23)
    run.respell(1, began=24, ended=25)


@plants("real_time_order")
def a_later_unknown_operation_got_an_earlier_version(run: Run) -> None:
    run.respell(4, outcome="unknown", version=None, began=70, ended=80)
    run.history["eve"] = [operation(5, add("p=9/z"))]
    run.ledger.append(recorded(5, add("p=9/z")))


@plants("version_not_after_read")
def a_commit_is_not_after_what_it_read(run: Run) -> None:
    run.respell(2, read_version=2)


@plants("missed_append")
def a_delete_overlooks_a_matching_file(run: Run) -> None:
    run.respell(3, scope="p=")


@plants("missed_append")
def an_unknown_overwrite_overlooks_a_matching_file(run: Run) -> None:
    run.respell(4, outcome="unknown", version=None, timestamp=None, read_version=1)


@plants("missed_removal")
def an_overwrite_has_read_a_file_that_was_removed(run: Run) -> None:
    run.respell(4, read_files=frozenset({"p=1/a"}))


@plants("missed_removal")
def an_overwrite_of_the_whole_table_overlooks_a_removal(run: Run) -> None:
    run.respell(4, scope="")


@plants("missed_metadata")
def an_append_overlooks_a_new_schema(run: Run) -> None:
    run.rewrite(1, actions=[*run.ledger[1].actions, METADATA])


@pytest.mark.parametrize(("name", "bug"), BUGS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_bug_is_found_by_its_name(name: str, bug: Bug) -> None:
    run = clean()
    bug(run)
    assert name in run.names()
    assert all(str(violation).startswith(violation.name) for violation in run.violations())


def test_every_violation_has_a_planted_bug() -> None:
    assert {name for name, _ in BUGS} == set(VIOLATIONS)


# ---------------------------------------------------------------- what is no violation


def test_a_commit_whose_answer_was_lost_may_stand_or_not() -> None:
    run = clean()
    lost = {"outcome": "unknown", "version": None, "timestamp": None, "began": 50, "ended": 99}
    run.history["eve"] = [operation(0, add("p=9/z"), **lost)]
    assert run.violations() == []
    run.ledger.append(recorded(5, add("p=9/z")))
    assert run.violations() == []


def test_of_two_lost_answers_with_the_same_files_neither_is_suspected() -> None:
    run = clean()
    lost = {"outcome": "unknown", "version": None, "kind": "delete", "began": 25, "ended": 99, "scope": "p=2/"}
    # One of them looked too early, the other in time; the ledger does not say whose commit it is.
    run.history["eve"] = [operation(0, remove("p=2/d"), read_version=3, **lost)]
    run.history["kim"] = [operation(0, remove("p=2/d"), read_version=4, **lost)]
    run.ledger.append(recorded(5, remove("p=2/d")))
    assert run.violations() == []


def test_a_lost_answer_explains_a_commit_before_a_refusal_is_suspected() -> None:
    run = clean()
    refused = {"outcome": "conflict", "version": None, "timestamp": None, "began": 50, "ended": 60}
    lost = {**refused, "outcome": "unknown", "began": 61, "ended": 70}
    run.history["eve"] = [operation(0, add("p=9/z"), **refused), operation(0, add("p=9/z"), **lost)]
    run.ledger.append(recorded(5, add("p=9/z")))
    assert run.violations() == []


def test_rewritten_rows_are_no_append_that_could_be_missed() -> None:
    run = clean()
    run.rewrite(2, actions=[add("p=2/b", data_change=False)])
    run.respell(3, scope="p=")
    assert run.violations() == []


def test_overlapping_operations_may_get_their_versions_in_any_order() -> None:
    run = clean()
    run.respell(1, began=10, ended=29)
    run.respell(2, began=11, ended=12)
    assert run.violations() == []


@pytest.mark.parametrize(
    "changes",
    [{"ended": 0}, {"began": 5}, {"timestamp": None}, {"read_version": None}, {"scope": None}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_history_noted_wrongly_is_refused(changes: dict[str, Any]) -> None:
    run = clean()
    run.respell(3, **changes)
    with pytest.raises(ValueError, match="ada: "):
        run.violations()


# ---------------------------------------------------------------- histories nobody thought of


class _Begun(msgspec.Struct):
    """An operation on its way."""

    kind: str
    began: int
    read_version: int
    actions: list[Action]
    scope: str | None = None


def simulate(chance: random.Random, steps: int) -> Run:
    """Three workers on a correct ledger, which takes the commits one at a time."""
    run = Run({"setup": [operation(0, PROTOCOL, METADATA, kind="create")]}, [recorded(0, PROTOCOL, METADATA)])
    begun: dict[str, _Begun] = {}
    for now in range(100, 100 + steps):
        worker = chance.choice(["ada", "bob", "kim"])
        if worker not in begun:
            begun[worker] = _begin(chance, run.ledger, now)
        else:
            answer = _finish(chance, run.ledger, begun.pop(worker), now)
            run.history.setdefault(worker, []).append(answer)
    return run


def _begin(chance: random.Random, ledger: list[RecordedCommit], now: int) -> _Begun:
    read_version = len(ledger) - 1
    partition = f"p={chance.randrange(3)}/"
    new = add(f"{partition}{now}")
    kind = chance.choice(["append", "append", "delete", "overwrite"])
    if kind == "append":
        return _Begun(kind, now, read_version, [new])
    scope = partition if kind == "delete" else chance.choice([partition, ""])
    active: set[str] = set()
    for commit in ledger:
        added, removed = files_of(commit.actions)
        active = (active - removed) | added
    gone: list[Action] = [remove(path) for path in sorted(active) if path.startswith(scope)]
    return _Begun(kind, now, read_version, [*gone, new], scope)


def _finish(chance: random.Random, ledger: list[RecordedCommit], mine: _Begun, now: int) -> Operation:
    """The answer of the ledger, which is sometimes lost."""
    version = len(ledger)
    told: dict[str, Any] = {
        "kind": mine.kind,
        "began": mine.began,
        "ended": now,
        "read_version": mine.read_version,
        "scope": mine.scope,
        "read_files": files_of(mine.actions)[1],
    }
    unheard = {"version": None, "timestamp": None}
    if any(_stands_against(mine, action) for commit in ledger[mine.read_version + 1 :] for action in commit.actions):
        return operation(version, *mine.actions, **told, **unheard, outcome="conflict")
    lost = chance.random() < 0.1
    if not lost or chance.random() < 0.5:
        ledger.append(recorded(version, *mine.actions))
    if lost:
        return operation(version, *mine.actions, **told, **unheard, outcome="unknown")
    return operation(version, *mine.actions, **told)


def _stands_against(mine: _Begun, winner: Action) -> bool:
    return mine.scope is not None and isinstance(winner, AddFile | RemoveFile) and winner.path.startswith(mine.scope)


SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.integers(0, 120))
def test_the_history_of_a_correct_ledger_is_clean(seed: int, steps: int) -> None:
    assert simulate(random.Random(seed), steps).violations() == []


def drop_a_commit(run: Run, first: int, second: int) -> None:
    del run.ledger[second]


def duplicate_a_commit(run: Run, first: int, second: int) -> None:
    run.ledger.insert(second, run.ledger[first])


def swap_two_commits(run: Run, first: int, second: int) -> None:
    run.ledger[first], run.ledger[second] = (
        replace(run.ledger[second], version=first, timestamp=1_000 + first),
        replace(run.ledger[first], version=second, timestamp=1_000 + second),
    )


def swap_two_answers(run: Run, first: int, second: int) -> None:
    (one, here), (other, there) = run.told(first), run.told(second)
    run.history[one][here] = replace(run.history[one][here], version=second, timestamp=1_000 + second)
    run.history[other][there] = replace(run.history[other][there], version=first, timestamp=1_000 + first)


def alter_a_path(run: Run, first: int, second: int) -> None:
    run.rewrite(second, actions=[*run.ledger[second].actions[:-1], add("p=0/altered")])


def alter_a_timestamp(run: Run, first: int, second: int) -> None:
    run.rewrite(second, timestamp=run.ledger[second - 1].timestamp)


def add_a_file_twice(run: Run, first: int, second: int) -> None:
    run.rewrite(second, actions=[*run.ledger[second].actions, run.ledger[second].actions[-1]])


def remove_a_file_too_many(run: Run, first: int, second: int) -> None:
    run.rewrite(second, actions=[*run.ledger[second].actions, remove("p=0/never")])


def forget_an_answer(run: Run, first: int, second: int) -> None:
    worker, place = run.told(second)
    del run.history[worker][place]


def answer_twice(run: Run, first: int, second: int) -> None:
    worker, place = run.told(second)
    run.history["eve"] = [run.history[worker][place]]


def take_an_answer_back(run: Run, first: int, second: int) -> None:
    run.respell(second, outcome="conflict", version=None, timestamp=None)


def begin_after_the_end(run: Run, first: int, second: int) -> None:
    worker, place = run.told(first)
    run.history["eve"] = [replace(run.history[worker].pop(place), began=10_000, ended=10_001)]


def read_everything_too_early(run: Run, first: int, second: int) -> None:
    run.respell(second, read_version=0, scope="")


def read_the_future(run: Run, first: int, second: int) -> None:
    run.respell(second, read_version=second)


Mutation = Callable[[Run, int, int], None]
MUTATIONS: dict[Mutation, str] = {
    drop_a_commit: "lost_commit",
    duplicate_a_commit: "versions_not_consecutive",
    swap_two_commits: "altered_commit",
    swap_two_answers: "altered_commit",
    alter_a_path: "altered_commit",
    alter_a_timestamp: "timestamp_not_increasing",
    add_a_file_twice: "file_active_twice",
    remove_a_file_too_many: "removed_inactive_file",
    forget_an_answer: "unannounced_commit",
    answer_twice: "acknowledged_twice",
    take_an_answer_back: "refused_commit_recorded",
    begin_after_the_end: "real_time_order",
    read_everything_too_early: "missed_append",
    read_the_future: "version_not_after_read",
}


@given(SEEDS, st.sampled_from(sorted(MUTATIONS, key=lambda mutate: mutate.__name__)))
def test_a_single_mutation_of_a_correct_history_is_found(seed: int, mutate: Mutation) -> None:
    chance = random.Random(seed)
    run = simulate(chance, steps=60)
    told = sorted(
        answer.version for answers in run.history.values() for answer in answers if answer.version is not None
    )
    assume(len(told) > 3)
    # Not the first: nothing could come between the creation of the table and the commit after it.
    first, second = sorted(chance.sample(told[2:], 2))
    mutate(run, first, second)
    assert MUTATIONS[mutate] in run.names()
