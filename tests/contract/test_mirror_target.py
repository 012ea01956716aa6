"""What every place to publish to does alike: one suite over each `MirrorTarget` that is shipped."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltasql import log
from deltasql.errors import LedgerCorruptError
from deltasql.log.memory import MemoryTarget
from deltasql.log.target import CheckpointWritten, ForeignFound, MirrorTarget, Published
from deltasql.log.writer import DeltaLog
from deltasql.storage.local import LocalFiles
from deltasql.storage.memory import MemoryStore
from log_samples import file_row, files, state, tombstones

pytestmark = pytest.mark.contract

TARGETS: dict[str, Callable[[Path], MirrorTarget]] = {
    "local files": lambda folder: DeltaLog(LocalFiles(folder / "table")),
    "memory store": lambda _: DeltaLog(MemoryStore()),
    "memory target": lambda _: MemoryTarget(),
}


@pytest.fixture(params=list(TARGETS), ids="target={}".format)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> MirrorTarget:
    return TARGETS[request.param](tmp_path)


def commit(number: int) -> bytes:
    return f'{{"commitInfo":{{"timestamp":{number}}}}}\n'.encode()


def test_the_url_has_no_trailing_slash(target: MirrorTarget) -> None:
    assert "://" in target.url
    assert not target.url.endswith("/")


def test_a_commit_is_put_where_there_is_none(target: MirrorTarget) -> None:
    assert target.read_commit(0) is None
    assert target.publish(0, commit(0), timestamp=5) == Published(version=0, created=True)
    assert target.read_commit(0) == commit(0)


def test_the_same_commit_again_is_published_already(target: MirrorTarget) -> None:
    target.publish(0, commit(0), timestamp=5)
    assert target.publish(0, commit(0), timestamp=6) == Published(version=0, created=False)


@pytest.mark.parametrize("other", [commit(1), commit(0)[:-1], b""])
def test_other_bytes_are_foreign_and_stay(target: MirrorTarget, other: bytes) -> None:
    target.publish(0, other, timestamp=5)
    assert target.publish(0, commit(0), timestamp=5) == ForeignFound(version=0, found=other)
    assert target.read_commit(0) == other


def test_of_many_at_once_one_wins_and_the_others_see_it(target: MirrorTarget) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda number: target.publish(0, commit(number), timestamp=5), range(8)))
    winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Published)]
    assert len(winners) == 1
    losers = [outcome for outcome in outcomes if isinstance(outcome, ForeignFound)]
    assert {outcome.found for outcome in losers} == {commit(winners[0])} == {target.read_commit(0)}


def test_versions_ascend_from_where_they_are_asked_for(target: MirrorTarget) -> None:
    assert target.versions() == []
    for version in (11, 0, 2, 10, 1):
        target.publish(version, commit(version), timestamp=5)
    target.write_checkpoint(state(10))
    assert target.versions() == [0, 1, 2, 10, 11]
    assert target.versions(2) == [2, 10, 11]
    assert target.versions(3) == [10, 11]
    assert target.versions(12) == []


def test_published_commits_can_be_synced(target: MirrorTarget) -> None:
    for version in (0, 1):
        target.publish(version, commit(version), timestamp=5)
    target.sync([0, 1])
    target.sync([])


def test_a_checkpoint_is_counted_and_pointed_at(target: MirrorTarget) -> None:
    assert target.last_checkpoint() is None
    written = target.write_checkpoint(
        state(
            10,
            files=iter([files(file_row("a"), file_row("b")), files(file_row("c"))]),
            num_files=3,
            tombstones=iter([tombstones({"path": "d", "data_change": True})]),
            num_tombstones=1,
        )
    )
    assert written == CheckpointWritten(version=10, actions=6, bytes=written.bytes, files=3)
    assert written.bytes > 0
    assert target.last_checkpoint() == 10


def test_the_pointer_to_the_checkpoint_never_goes_back(target: MirrorTarget) -> None:
    for version, expected in ((10, 10), (5, 10), (10, 10), (20, 20)):
        target.write_checkpoint(state(version))
        assert target.last_checkpoint() == expected


def test_a_checkpoint_that_does_not_add_up_is_not_made(target: MirrorTarget) -> None:
    with pytest.raises(LedgerCorruptError):
        target.write_checkpoint(state(10, num_files=2))
    assert target.last_checkpoint() is None


def test_checkpoints_are_no_commits(target: MirrorTarget) -> None:
    target.write_checkpoint(state(10))
    assert target.versions() == []
    assert target.read_commit(10) is None


def test_every_target_that_is_shipped_is_held_to_this(tmp_path: Path) -> None:
    promised = {name for name, value in vars(MirrorTarget).items() if callable(value) and not name.startswith("_")}
    assert "publish" in promised
    modules = [importlib.import_module(f"deltasql.log.{found.name}") for found in pkgutil.iter_modules(log.__path__)]
    shipped = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value is not MirrorTarget and promised <= set(dir(value))
    }
    assert shipped == {DeltaLog, MemoryTarget}
    assert shipped == {type(make(tmp_path)) for make in TARGETS.values()}


def test_the_suite_runs_over_every_target() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", __file__]
    collected = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert collected.returncode == 0, collected.stdout
    cases = Counter(re.findall(r"target=([\w ]+)", collected.stdout))
    assert cases == dict.fromkeys(("local files", "memory store", "memory target"), 13)
