"""Writers in processes of their own, which note what they did and what they were told, a line of JSON each.

They are forked from a server process that has the product loaded and nothing open: a fresh interpreter for each would
cost more than its work.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa

import deltasql
from deltasql.client import Lake
from deltasql.errors import ConflictError, InvalidInputError
from deltasql.ledger.contracts import CommitDraft
from deltasql.outcomes import Committed, Conflict
from history import Kind, Operation, Outcome, files_of
from ledger_samples import add, remove

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("deltasql.client", "deltasql.cli.main", "pyarrow.parquet", "pytest"),
        *(f"deltasql.ledger.dialects.{name}" for name in ("duckdb", "postgresql", "sqlite")),
    ]
)


SCHEMA = pa.schema([("p", pa.int64()), ("id", pa.int64()), ("tag", pa.string())])
PARTITIONS = range(3)
IDS = range(6)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker shall do, and where it notes it."""

    url: str
    worker: int
    times: int
    notes: Path
    seed: int = 0

    @property
    def random(self) -> random.Random:
        return random.Random(f"{self.seed} {self.worker}")


class Effect(msgspec.Struct, frozen=True):
    """What an operation does to the rows of a table, whatever they are: so its place in the order can be judged."""

    verb: Kind
    partition: int | None
    id: int | None
    tag: str


class Note(msgspec.Struct, frozen=True):
    """An operation on one table; operations of one transaction have the same `transaction`."""

    table: str
    operation: Operation
    effect: Effect | None = None
    transaction: str | None = None


Work = Callable[[Job, Lake, Callable[[Note], None]], None]


def start(target: Callable[..., None], *arguments: object) -> Any:
    """A process that runs a function of an importable module."""
    process = _context.Process(target=target, args=arguments)
    process.start()
    return process


def run(work: Work, jobs: Sequence[Job], seconds: float = 280) -> list[int | None]:
    """Let all jobs begin at once, and wait for them; how each process ended."""
    barrier = _context.Barrier(len(jobs))
    processes = [start(_work, work, job, barrier) for job in jobs]
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        # Whoever waits for ever would take the whole run with it.
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def notes(jobs: Iterable[Job]) -> dict[str, list[Note]]:
    """What each worker noted, in its order."""
    lines = {f"worker {job.worker}": job.notes.read_bytes().splitlines() for job in jobs}
    return {worker: [msgspec.json.decode(line, type=Note) for line in found] for worker, found in lines.items()}


def history(noted: dict[str, list[Note]], table: str) -> dict[str, list[Operation]]:
    """The operations on one table."""
    return {worker: [note.operation for note in found if note.table == table] for worker, found in noted.items()}


def creation(lake: Lake, name: str, schema: pa.Schema = SCHEMA, partition_by: Sequence[str] = ()) -> Operation:
    """Create a table, as an operation."""
    began = time.monotonic_ns()
    state = lake.create_table(name, schema, partition_by).snapshot()
    return Operation(
        kind="create",
        began=began,
        ended=time.monotonic_ns(),
        outcome="committed",
        version=state.version,
        timestamp=state.timestamp,
    )


def _work(work: Work, job: Job, barrier: Any) -> None:
    with job.notes.open("ab", buffering=0) as file, deltasql.connect(job.url, create=False) as lake:
        barrier.wait(120)

        def note(one: Note) -> None:
            file.write(msgspec.json.encode(one) + b"\n")

        work(job, lake, note)


# ---------------------------------------------------------------- what workers do


def append_blindly(job: Job, lake: Lake, note: Callable[[Note], None]) -> None:
    """Ready-made files into table `t`, one a commit."""
    table = lake.table("t")
    for number in range(job.times):
        path = f"{job.worker}-{number}"
        began = time.monotonic_ns()
        done = table.commit([add(path)])
        note(Note("t", _told("append", began, done, added=frozenset({path}))))


def write_rows(job: Job, lake: Lake, note: Callable[[Note], None]) -> None:
    """Appends, deletes and overwrites of real rows in the partitioned table `t`; a lost race is noted as one."""
    chance = job.random
    with _drafts(lake) as drafted:
        table = lake.table("t")
        for number in range(job.times):
            verb = chance.choices(("append", "delete", "overwrite"), (4, 3, 2))[0]
            partition = chance.choice((*PARTITIONS, None))
            tag = f"{job.worker}-{number}"
            within = verb == "delete" and partition is not None and chance.random() < 0.7
            # Never the lowest or highest number: so any file of a partition may hold it, as far as statistics tell.
            chosen = chance.choice(IDS[1:-1]) if within else None
            where = " AND ".join(f"{name} = {n}" for name, n in (("p", partition), ("id", chosen)) if n is not None)
            data = rows_of(partition, tag)
            drafted.clear()
            began, outcome, done = time.monotonic_ns(), "committed", None
            try:
                match verb:
                    case "append":
                        done = table.append(data)
                    case "delete":
                        done = table.delete(where or None)
                    case _:
                        done = table.overwrite(data, where or None)
            except ConflictError:
                outcome = "conflict"
            if not drafted:
                # There was no row to delete, so nothing was tried.
                continue
            operation = _operation(cast("Kind", verb), began, cast("Outcome", outcome), done, drafted[0], partition)
            note(Note("t", operation, Effect(cast("Kind", verb), partition, chosen, tag)))


def commit_groups(job: Job, lake: Lake, note: Callable[[Note], None]) -> None:
    """Transactions over some of the tables, in any order. A few cannot be: they hold the removal of no file."""
    chance = job.random
    names = sorted(table.name for table in lake.tables())
    for number in range(job.times):
        chosen = chance.sample(names, chance.randint(1, len(names)))
        bad = chance.choice(chosen) if chance.random() < 0.15 else None
        path = f"{job.worker}-{number}"
        began, done = time.monotonic_ns(), ()
        transaction = lake.transaction()
        try:
            with transaction:
                for name in chosen:
                    transaction.table(name).commit([add(path), *([remove("never")] if name == bad else [])])
            done = transaction.result
        except InvalidInputError:
            assert bad is not None
        told = {one.table: one for one in done}
        for name in chosen:
            removed = frozenset({"never"} if name == bad else ())
            operation = _told("append", began, told.get(name), added=frozenset({path}), removed=removed)
            note(Note(name, operation, transaction=path))


def rows_of(partition: int | None, tag: str) -> pa.Table:
    """A row for each number, in one partition or in all."""
    chosen = PARTITIONS if partition is None else [partition]
    return pa.Table.from_pylist([{"p": p, "id": n, "tag": tag} for p in chosen for n in IDS], schema=SCHEMA)


def _told(kind: Kind, began: int, done: Committed | None, **values: Any) -> Operation:
    return Operation(
        kind=kind,
        began=began,
        ended=time.monotonic_ns(),
        outcome="failed" if done is None else "committed",
        version=None if done is None else done.version,
        timestamp=None if done is None else done.timestamp,
        **values,
    )


def _operation(
    kind: Kind, began: int, outcome: Outcome, done: Committed | None, draft: CommitDraft, partition: int | None
) -> Operation:
    added, removed = files_of(draft.actions)
    return Operation(
        kind=kind,
        began=began,
        ended=time.monotonic_ns(),
        outcome=outcome,
        read_version=draft.read_version,
        version=None if done is None else done.version,
        timestamp=None if done is None else done.timestamp,
        added=added,
        removed=removed,
        read_files=frozenset(path for path, _ in draft.reads.files),
        scope=None if kind == "append" else "" if partition is None else f"p={partition}/",
    )


class _Noting:
    """A writer that keeps the drafts it was given: what the client made of a verb, before the ledger saw it."""

    def __init__(self, writer: Any, drafted: list[CommitDraft]) -> None:
        self._writer = writer
        self._drafted = drafted

    def commit(self, drafts: Sequence[CommitDraft]) -> tuple[Committed, ...] | Conflict:
        self._drafted.extend(drafts)
        return self._writer.commit(drafts)


@contextmanager
def _drafts(lake: Lake) -> Iterator[list[CommitDraft]]:
    drafted: list[CommitDraft] = []
    services: Any = lake._services
    lake._services = msgspec.structs.replace(services, writer=_Noting(services.writer, drafted))
    yield drafted
    lake._services = services


def in_order(noted: Iterable[Note]) -> list[tuple[int, int, str]]:
    """The rows that operations leave behind, done one after the other in the order of their versions."""
    rows: list[tuple[int, int, str]] = []
    done = [(note.operation.version, note.effect) for note in noted if note.operation.outcome == "committed"]
    for _, effect in sorted((version, effect) for version, effect in done if version is not None and effect):
        if effect.verb != "append":
            rows = [row for row in rows if not _hit(effect, row)]
        if effect.verb != "delete":
            new = rows_of(effect.partition, effect.tag).to_pylist()
            rows += [(row["p"], row["id"], row["tag"]) for row in new]
    return sorted(rows)


def _hit(effect: Effect, row: tuple[int, int, str]) -> bool:
    return effect.partition in (None, row[0]) and effect.id in (None, row[1])
