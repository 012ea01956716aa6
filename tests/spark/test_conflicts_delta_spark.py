"""The same pairs of commits in the real Delta Spark: what stands there stands here, and each difference is a choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conflict_cases import BASE, CASES, FEATURES, SCHEMA, Case, Kind, Look, add, domain, metadata, protocol
from deltasql.protocol.actions import Action, AddFile, CommitInfo, DomainMetadata, Metadata, SetTransaction
from deltasql.protocol.jsonlog import decode_commit, encode_action, encode_commit
from deltasql.protocol.paths import LOG_DIR
from deltasql.protocol.rebase import Place, settle

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    """Checksums and compiled plans cost more than all the rest of a commit to a table of three files."""
    settings = ("spark.databricks.delta.writeChecksumFile.enabled", "spark.sql.codegen.wholeStage")
    for name in settings:
        spark.conf.set(name, "false")
    yield
    for name in settings:
        spark.conf.unset(name)


class Duel:
    """A table in Delta Spark, and a transaction on its version 0 that somebody is faster than."""

    def __init__(self, spark: SparkSession, folder: Path, base: Sequence[Action]) -> None:
        self._session: Any = spark._jsparkSession
        self._jvm: Any = spark._jvm
        self._delta = self._jvm.org.apache.spark.sql.delta
        self._log = folder / LOG_DIR
        self._log.mkdir(parents=True)
        self.write(0, base)
        self._transaction = self._delta.DeltaLog.forTable(self._session, str(folder)).startTransaction()

    def write(self, version: int, actions: Iterable[Action]) -> None:
        (self._log / f"{version:020d}.json").write_bytes(encode_commit(actions))

    def written(self, version: int) -> list[Action]:
        return decode_commit((self._log / f"{version:020d}.json").read_bytes())

    def look(self, look: Look, kind: Kind) -> None:
        if look.whole_table:
            self._transaction.readWholeTable()
        if look.where is not None:
            parser = self._session.sessionState().sqlParser()
            self._transaction.trackReadPredicates(self._seq([parser.parseExpression(look.where)]), False, True)
        if look.read(kind):
            self._transaction.trackFilesRead(self._actions(look.read(kind)))

    def ask(self, applications: Iterable[str]) -> None:
        for application in applications:
            self._transaction.txnVersion(application)

    def commit(self, actions: Sequence[Action]) -> int:
        operation = (
            self._jvm.java.lang.Thread.currentThread()
            .getContextClassLoader()
            .loadClass("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
        )
        return self._transaction.commit(self._actions(actions), operation.getField("MODULE$").get(None))

    def _actions(self, actions: Iterable[Action]) -> Any:
        return self._seq([self._delta.actions.Action.fromJson(encode_action(action).decode()) for action in actions])

    def _seq(self, values: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(values)


def _fit(actions: Iterable[Action], kind: Kind) -> list[Action]:
    """The actions of a case as they stand in a table of that kind."""
    if kind != "plain":
        return list(actions)
    return [
        msgspec.structs.replace(action, partition_values={}) if hasattr(action, "partition_values") else action
        for action in actions
    ]


def base(case: Case) -> list[Action]:
    configuration = {} if case.isolation == "Serializable" else {"isolationLevel": case.isolation}
    features, mark = FEATURES, []
    files: list[Action] = _fit(BASE, case.kind)
    if case.kind == "tracked":
        features, mark = (*FEATURES, "rowTracking"), [domain("delta.rowTracking", '{"rowIdHighWaterMark":29}')]
        files = [
            msgspec.structs.replace(file, base_row_id=10 * place, default_row_commit_version=0)
            for place, file in enumerate(BASE)
        ]
    # Open-source Delta refuses to set a weaker level, and obeys one that it finds in the log.
    return [protocol(*features), metadata(case.kind, **configuration), *mark, *files]


def outcome(spark: SparkSession, folder: Path, case: Case) -> str | None:
    duel = Duel(spark, folder, base(case))
    duel.look(case.look, case.kind)
    if case.asked:
        duel.ask(action.app_id for action in case.mine if isinstance(action, SetTransaction))
    duel.write(1, [case.info, *_fit(case.winner, case.kind)])
    try:
        assert duel.commit(_fit(case.mine, case.kind)) == 2
    except PySparkException as error:
        return type(error).__name__
    except Py4JJavaError as error:
        return error.java_exception.getClass().getSimpleName()
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pair_comes_out_in_delta_spark_as_the_table_says(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    assert outcome(spark, tmp_path / "table", case) == case.delta


def test_no_pair_is_left_out() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 75


APPENDED = CommitInfo({"timestamp": 2, "operation": "WRITE", "operationParameters": {}, "isBlindAppend": True})


def rebased(
    spark: SparkSession, folder: Path, base: Sequence[Action], mine: Sequence[Action], *won: Action
) -> list[Action]:
    """What Delta Spark writes as version 2 of a commit that was meant to be version 1."""
    duel = Duel(spark, folder, base)
    duel.write(1, [APPENDED, *won])
    assert duel.commit(mine) == 2
    return duel.written(2)


def of(kind: type[Any], actions: Iterable[Action]) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


@pytest.mark.parametrize("stale", [None, 30], ids=["without ids", "with ids for the version it did not get"])
def test_row_ids_are_given_out_as_delta_spark_does(spark: SparkSession, tmp_path: Path, stale: int | None) -> None:
    tracked = next(case for case in CASES if case.kind == "tracked")
    fresh = msgspec.structs.replace(
        add("a7"), base_row_id=stale, default_row_commit_version=None if stale is None else 1
    )
    carried = msgspec.structs.replace(add("a1"), base_row_id=0, default_row_commit_version=0)
    winner = msgspec.structs.replace(add("a8"), base_row_id=30, default_row_commit_version=1)
    mine = [fresh, carried, add("b7")]
    mark = domain("delta.rowTracking", '{"rowIdHighWaterMark":39}')
    written = rebased(spark, tmp_path / "table", base(tracked), mine, mark, winner)
    settled, high = settle(mine, Place(version=2, timestamp=2, read_version=0, row_id_high_water=39))
    assert of(AddFile, settled) == of(AddFile, written)
    assert [file.base_row_id for file in of(AddFile, settled)] == [40, 0, 50]
    assert encode_commit(of(DomainMetadata, settled)) == encode_commit(of(DomainMetadata, written))
    assert high == 59


def test_type_changes_get_the_version_that_delta_spark_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    def widened(*versions: int) -> str:
        types = ["short", "integer", "long"]
        changes = [
            {"toType": types[place + 1], "fromType": types[place], "tableVersion": version}
            for place, version in enumerate(versions)
        ]
        text = orjson.dumps({"delta.typeChanges": changes}).decode()
        return SCHEMA.replace('"long"', f'"{types[len(versions)]}"', 1).replace("{}", text, 1)

    described = metadata(schema=widened(0), enableTypeWidening="true")
    mine = metadata(schema=widened(0, 1), enableTypeWidening="true")
    start = [protocol(*FEATURES, "typeWidening-preview"), described, *BASE]
    [written] = of(Metadata, rebased(spark, tmp_path / "table", start, [mine], add("a8")))
    [settled], _ = settle([mine], Place(version=2, timestamp=2, read_version=0, row_id_high_water=None))
    assert isinstance(settled, Metadata)
    assert orjson.loads(settled.schema_string) == orjson.loads(written.schema_string)
    assert settled.schema_string == widened(0, 2)


def test_in_commit_timestamps_begin_where_delta_spark_lets_them_begin(spark: SparkSession, tmp_path: Path) -> None:
    start = [protocol(*FEATURES, "inCommitTimestamp"), metadata(), *BASE]
    written = rebased(spark, tmp_path / "table", start, [metadata(enableInCommitTimestamps="true")], add("a8"))
    [info] = of(CommitInfo, written)
    # What the writer had written for the version after the one it read.
    first = metadata(
        enableInCommitTimestamps="true",
        inCommitTimestampEnablementVersion="1",
        inCommitTimestampEnablementTimestamp="1",
    )
    place = Place(version=2, timestamp=info.in_commit_timestamp, read_version=0, row_id_high_water=None)
    assert settle([first], place)[0] == of(Metadata, written)
