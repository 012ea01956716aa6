"""The client: `connect()` gives a `Lake`, a lake gives `Table`s. Thin: every verb lives in `ops` or `mirror`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from deltasql.config import DEFAULT_MIRROR, MirrorSettings
from deltasql.errors import ConfigError, ConflictError
from deltasql.events import Sink, TableCommitted, ignore
from deltasql.ledger.audit import AuditEntry
from deltasql.ledger.contracts import CommitDraft, HistoryEntry, MirrorHead, MirrorStatus, TableEntry
from deltasql.ledger.listening import Listener
from deltasql.ledger.registry import check_name
from deltasql.log.writer import DeltaLog
from deltasql.mirror.engine import MirrorEngine, MirrorReport
from deltasql.mirror.recovery import RebuildReport, rebuild_log
from deltasql.ops.adopt import adopt
from deltasql.ops.alter import (
    draft_add_columns,
    draft_change_column,
    draft_drop_columns,
    draft_enable_feature,
    draft_rename_column,
    draft_widen_column,
)
from deltasql.ops.as_of import LakeView, view_at
from deltasql.ops.commit import Terms, draft_commit, is_append
from deltasql.ops.create import draft_create
from deltasql.ops.history import describe_history
from deltasql.ops.leftovers import SAFE_AGE, Leftover, find_leftovers
from deltasql.ops.lifecycle import DropReport, drop_table
from deltasql.ops.properties import (
    draft_add_constraint,
    draft_drop_constraint,
    draft_set_properties,
    draft_unset_properties,
)
from deltasql.ops.services import Services, open_services
from deltasql.ops.snapshot import Snapshot, Timestamp, snapshot_at
from deltasql.ops.transaction import Transaction
from deltasql.ops.watch import watch
from deltasql.ops.write import draft_append, draft_delete, draft_overwrite
from deltasql.outcomes import Committed
from deltasql.protocol.actions import Action
from deltasql.protocol.conflicts import IsolationLevel
from deltasql.protocol.schema import DataType, StructType
from deltasql.storage.locations import join_url, normalise_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def connect(
    ledger: str,
    root: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    create: bool = True,
    mirror: MirrorSettings = DEFAULT_MIRROR,
    sink: Sink = ignore,
    actor: str | None = None,
) -> Lake:
    """Open a lake. An empty database becomes a ledger; one of an older release is refused with the command to run.

    With `create=False` a database without a ledger is refused as well, and no file is made.
    `root` is where new tables get their folders. It is kept in the ledger at the first connect that names it.
    `actor` is who the audit shall name; DELTASQL_ACTOR, or the system's user and host, where it is left out.
    """
    return Lake(open_services(ledger, storage_options, root=root, create=create, sink=sink, actor=actor), mirror)


class Lake:
    """All tables of one ledger. May be used as a context manager, and from many threads."""

    def __init__(self, services: Services, settings: MirrorSettings) -> None:
        self._services = services
        self._settings = settings
        self._engine = MirrorEngine(services.reader, services.outbox, self._log, settings=settings, sink=services.sink)

    @property
    def root(self) -> str | None:
        """Where new tables get their folders."""
        return self._services.root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the ledger."""
        self._services.close()

    def create_table(
        self,
        name: str,
        schema: pa.Schema | StructType | str,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
    ) -> Table:
        """Create a table below the root: `sales.orders` lives in `root/sales/orders`."""
        check_name(name)
        if self.root is None:
            raise ConfigError(
                "this ledger has no root, so a new table has no place",
                hint="connect once with root=…, such as root='file:///data/warehouse'",
                field="root",
            )
        location = join_url(self.root, *name.split("."))
        draft = draft_create(self._services, name, location, schema, partition_by, properties, description)
        self._services.commit([draft])
        return self.table(name)

    def table(self, name: str) -> Table:
        return Table(self, self._services, self._services.reader.table(name))

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name. Its location stays."""
        renamed = self._services.lifecycle.rename(self._services.reader.table(name), new_name)
        return Table(self, self._services, renamed)

    def drop_table(self, name: str, data: bool = False, *, force: bool = False) -> DropReport:
        """Take a table out of the ledger; with `data` its folder is removed too.

        With versions that are not in its log yet it is refused, unless with `force`.
        """
        services = self._services
        return drop_table(services, services.lifecycle, services.reader.table(name), data=data, force=force)

    def tables(self) -> list[Table]:
        return [Table(self, self._services, entry) for entry in self._services.reader.tables()]

    def transaction(
        self,
        *,
        isolation: IsolationLevel = "Serializable",
        token: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Transaction:
        """Commits to any number of tables that stand or fall together. The options are those of `Table.commit`."""
        return Transaction(self._services, Terms(isolation=isolation, token=token, txn=txn))

    def watch(self, seconds: float | None = None) -> Iterator[TableCommitted]:
        """Every commit to any table from now on, in the order of each table, whoever makes it.

        Ends after `seconds` without one; never, where that is left out.
        """
        return watch(self._services, seconds)

    def listen(self) -> Listener:
        """Wakes when something was committed; `watch` says what it was. To be closed."""
        return self._services.listen()

    def audit(self, table: str | None = None, limit: int = 100) -> list[AuditEntry]:
        """Who committed, adopted, quarantined, rebuilt; newest first."""
        return self._services.audit.entries(table, limit)

    def as_of(self, timestamp: Timestamp) -> LakeView:
        """Every table as it stood at one instant; a transaction over many tables is seen in all of them or in none."""
        return view_at(self._services, timestamp)

    def owing(self) -> list[Table]:
        """The tables with versions still to be published."""
        return [Table(self, self._services, entry) for entry in self._services.outbox.tables_owing()]

    def mirror(self, spark: SparkSession | None = None, tables: Sequence[str] | None = None) -> MirrorReport:
        """Publish every version that is pending now: in this process, or spread over a Spark session's executors.

        Every table is looked at, also one that owes nothing: a foreign commit is found all the same.
        """
        chosen = None if tables is None else [self._services.reader.table(name) for name in tables]
        if spark is None:
            return self._engine.run(chosen)
        from deltasql.spark.pipeline import mirror_on_spark

        return mirror_on_spark(spark, self._services, self._engine, self._settings, chosen)

    def adopt(self, location: str, name: str) -> Table:
        """Take in a Delta table that others have written, with its history. It stays where it is."""
        return Table(self, self._services, adopt(self._services, normalise_url(location, field="location"), name))

    def rebuild(self, name: str, to: str | None = None, force: bool = False) -> RebuildReport:
        """Write a table's log again from the ledger: in its place, or, with `to`, elsewhere."""
        entry = self._services.reader.table(name)
        place = entry.location if to is None else normalise_url(to, field="to")
        log = DeltaLog(self._services.store_at(place))
        mirrored = self._services.outbox.mirror_head(entry)
        report = rebuild_log(self._services.reader, entry, mirrored, log, force=force)
        self._services.audit.record("rebuild", entry.name, mirrored.published_version, to=place)
        return report

    def checkpoint(self, name: str) -> int:
        """Write a checkpoint of a table at its published head and return the version."""
        return self._engine.checkpoint(self._services.reader.table(name))

    def _log(self, entry: TableEntry) -> DeltaLog:
        return DeltaLog(self._services.store_at(entry.location))


class Table:
    """One table. Each write is one commit; nothing is cached, so every call sees the newest version."""

    def __init__(self, lake: Lake, services: Services, entry: TableEntry) -> None:
        self._lake = lake
        self._services = services
        self._entry = entry

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.location!r})"

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def location(self) -> str:
        """The URL of the table's folder, which Delta readers can open once it is mirrored.

        Special characters in it are percent-encoded. Spark wants them bare: give it the path.
        """
        return self._entry.location

    @property
    def version(self) -> int:
        """The newest committed version."""
        return self._services.reader.head(self._entry).version

    def append(
        self,
        data: object,
        *,
        merge_schema: bool = False,
        token: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Committed:
        """Add rows: a pyarrow Table, a RecordBatchReader, or anything that speaks Arrow.

        With `merge_schema` columns that only the data has join the table in the same commit, nullable ones that it
        lacks become null, and wider types are taken over where the table allows that. Other options as in `commit`.
        """
        draft = draft_append(self._services, self._entry, self.snapshot(), data, merge_schema=merge_schema)
        return self._commit(draft, Terms(token=token, txn=txn))

    def overwrite(
        self,
        data: object,
        where: str | None = None,
        *,
        isolation: IsolationLevel = "Serializable",
        token: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Committed:
        """Replace all rows, or those for which `where` is true. Options as in `commit`."""
        draft = draft_overwrite(self._services, self._entry, self.snapshot(), data, where)
        return self._commit(draft, Terms(isolation=isolation, token=token, txn=txn))

    def delete(
        self,
        where: str | None = None,
        *,
        isolation: IsolationLevel = "Serializable",
        token: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> Committed:
        """Delete the rows for which `where` is true, or all. Where there are none, no version is made.

        Options as in `commit`.
        """
        snapshot = self.snapshot()
        draft = draft_delete(self._services, self._entry, snapshot, where)
        if draft is None:
            return Committed(table=self.name, version=snapshot.version, timestamp=snapshot.timestamp)
        return self._commit(draft, Terms(isolation=isolation, token=token, txn=txn))

    def commit(
        self,
        actions: Sequence[Action],
        operation: str = "WRITE",
        read_version: int | None = None,
        token: str | None = None,
        *,
        isolation: IsolationLevel = "Serializable",
        txn: tuple[str, int] | None = None,
    ) -> Committed:
        """Commit ready-made actions, for engines that write data files themselves.

        `read_version` is the version the actions were made for (the newest one, where it is left out). A `token`
        makes the call repeatable: a second one with the same token returns the first one's version. So does `txn`,
        an application's name and its own count, which Delta keeps in the table: what was committed with this count
        or a later one is not committed again. With `isolation="WriteSerializable"` appends that others made
        meanwhile are no conflict.
        """
        terms = Terms(isolation=isolation, token=token, txn=txn)
        if read_version is None and txn is None and is_append(actions):
            # What was seen last will do, as long as the table is still described in the same way. An application's
            # count would meet its own earlier one there.
            known = Snapshot(self._services, self._entry, self._services.reader.known_state(self._entry))
            try:
                return self._commit(draft_commit(self._entry, known, actions, operation, None), terms)
            except ConflictError as error:
                if error.conflict.reason not in ("metadata_changed", "protocol_changed"):
                    raise
        draft = draft_commit(self._entry, self.snapshot(), actions, operation, read_version)
        return self._commit(draft, terms)

    def add_columns(
        self,
        columns: pa.Schema | StructType | str,
        *,
        within: str | Sequence[str] | None = None,
        first: bool = False,
        after: str | None = None,
        comments: Mapping[str, str] | None = None,
    ) -> Committed:
        """Add nullable columns at the end, or `first`, or `after` one; with `within` inside that struct.

        A column is named by its path: `a.b`, inside arrays `a.element.b`, inside maps `a.key.b` or `a.value.b`.
        """
        draft = draft_add_columns(
            self._entry, self.snapshot(), columns, within=within, first=first, after=after, comments=comments
        )
        return self._commit(draft, Terms())

    def rename_column(self, column: str | Sequence[str], name: str, *, column_mapping: bool = False) -> Committed:
        """Give a column another name; no file is touched. Where the table does not map its columns yet,
        `column_mapping=True` makes it do so, and from then on readers must know that feature."""
        draft = draft_rename_column(self._entry, self.snapshot(), column, name, column_mapping=column_mapping)
        return self._commit(draft, Terms())

    def drop_columns(self, columns: Sequence[str | Sequence[str]], *, column_mapping: bool = False) -> Committed:
        """Drop columns; files keep their values, unseen. `column_mapping` as in `rename_column`."""
        draft = draft_drop_columns(self._services, self._entry, self.snapshot(), columns, column_mapping=column_mapping)
        return self._commit(draft, Terms())

    def widen_column(
        self, column: str | Sequence[str], wider: DataType | str, *, type_widening: bool = False
    ) -> Committed:
        """Give a column, or the elements of an array or map, a wider type: `long`, `decimal(12,2)`.

        Where the table does not allow that yet, `type_widening=True` makes it do so, and from then on readers must
        know that feature.
        """
        draft = draft_widen_column(self._entry, self.snapshot(), column, wider, type_widening=type_widening)
        return self._commit(draft, Terms())

    def change_column(
        self,
        column: str | Sequence[str],
        *,
        comment: str | None = None,
        nullable: bool | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> Committed:
        """Give a column another comment or place, or let it be null."""
        draft = draft_change_column(
            self._entry, self.snapshot(), column, comment=comment, nullable=nullable, first=first, after=after
        )
        return self._commit(draft, Terms())

    def enable_feature(self, feature: str) -> Committed:
        """Switch on `columnMapping`, `typeWidening` or `timestampNtz`, which changes of columns need.

        Where it is on, no version is made.
        """
        snapshot = self.snapshot()
        draft = draft_enable_feature(self._entry, snapshot, feature)
        if draft is None:
            return Committed(table=self.name, version=snapshot.version, timestamp=snapshot.timestamp)
        return self._commit(draft, Terms())

    def set_properties(self, properties: Mapping[str, str]) -> Committed:
        """Give properties new values; all others stay."""
        snapshot = self.snapshot()
        return self._change(snapshot, draft_set_properties(self._entry, snapshot, properties))

    def unset_properties(self, names: Sequence[str], *, if_exists: bool = False) -> Committed:
        """Take properties away, so that their defaults hold."""
        snapshot = self.snapshot()
        draft = draft_unset_properties(self._entry, snapshot, names, if_exists=if_exists)
        return self._change(snapshot, draft)

    def add_constraint(self, name: str, expression: str) -> Committed:
        """Let every row make `expression` true, from now on. The rows that are there are looked at first."""
        snapshot = self.snapshot()
        return self._change(snapshot, draft_add_constraint(self._entry, snapshot, name, expression))

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> Committed:
        snapshot = self.snapshot()
        draft = draft_drop_constraint(self._entry, snapshot, name, if_exists=if_exists)
        return self._change(snapshot, draft)

    def describe_history(self, limit: int | None = None) -> pa.Table:
        """The commits, newest first, in the columns of Delta's DESCRIBE HISTORY."""
        return describe_history(self._services.reader, self._entry, limit)

    def version_of(self, token: str) -> int | None:
        """The version that was committed with this token: how a Spark job's caller finds what it wrote."""
        return self._services.reader.version_of(self._entry, token)

    def checkpoint(self) -> int:
        """Write a checkpoint now, at the published head, and return its version."""
        return self._lake.checkpoint(self.name)

    def snapshot(self, version: int | None = None, timestamp: Timestamp | None = None) -> Snapshot:
        """The table at a version, or as it stood at an instant; the newest version where neither is given."""
        return snapshot_at(self._services, self._entry, version, timestamp)

    def to_arrow(
        self, version: int | None = None, timestamp: Timestamp | None = None, filter: str | None = None
    ) -> pa.Table:
        return self.snapshot(version, timestamp).to_arrow(filter)

    def to_spark(
        self,
        spark: SparkSession,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        filter: str | None = None,
    ) -> DataFrame:
        """The rows as a DataFrame whose Parquet files Spark reads itself: for large scans.

        With `filter` only those for which it is true, from the files that may hold such rows.
        """
        from deltasql.spark.native import to_dataframe

        return to_dataframe(spark, self._entry, self.snapshot(version, timestamp), filter)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The commits, newest first."""
        return self._services.reader.history(self._entry, limit)

    def leftovers(self, older_than: timedelta = SAFE_AGE) -> list[Leftover]:
        """The data files in the table's folder that no version refers to, such as those of a write that failed.

        They may be removed, once they are older than any write that may still be at work: its files, too, are
        referred to by nothing until it commits. That is why only those of a week ago or more are listed at first.
        """
        return find_leftovers(self._services, self._entry, older_than)

    def mirror_head(self) -> MirrorHead:
        """How far this table's log has come."""
        return self._services.outbox.mirror_head(self._entry)

    def mirror_status(self, *, unpublished_only: bool = False) -> list[MirrorStatus]:
        """How the publication of each version stands."""
        return self._services.outbox.status(self._entry, unpublished_only=unpublished_only)

    def _change(self, snapshot: Snapshot, draft: CommitDraft | None) -> Committed:
        if draft is None:
            return Committed(table=self.name, version=snapshot.version, timestamp=snapshot.timestamp)
        return self._commit(draft, Terms())

    def _commit(self, draft: CommitDraft, terms: Terms) -> Committed:
        return self._services.commit([terms.apply(draft)])[0]


__all__ = ["Lake", "Table", "Transaction", "connect"]
