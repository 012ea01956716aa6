"""A table at one version: its description, files and rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from deltasql.errors import InvalidInputError
from deltasql.ledger.contracts import TableEntry, TableState
from deltasql.ops.files import read_file
from deltasql.ops.services import Services
from deltasql.protocol.actions import AddFile, DeletionVector, Metadata, TableProtocol
from deltasql.protocol.arrow import schema_to_arrow
from deltasql.protocol.features import check_readable
from deltasql.protocol.files import FILES
from deltasql.protocol.predicate import Predicate, parse
from deltasql.protocol.rows import evaluate
from deltasql.protocol.schema import StructType, parse_schema
from deltasql.protocol.skipping import FileFacts, facts_from, may_match

Timestamp = datetime | str


class Snapshot:
    """A table as it stands, or stood, at one version. Files and rows are read when asked for."""

    def __init__(self, services: Services, entry: TableEntry, state: TableState) -> None:
        self._services = services
        self._entry = entry
        self.state = state

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def timestamp(self) -> int:
        """When the version was committed, in milliseconds since the epoch."""
        return self.state.timestamp

    @property
    def metadata(self) -> Metadata:
        return self.state.metadata

    @property
    def protocol(self) -> TableProtocol:
        return self.state.protocol

    @cached_property
    def structure(self) -> StructType:
        """The schema in Delta's own types."""
        return parse_schema(self.state.metadata.schema_string)

    @property
    def schema(self) -> pa.Schema:
        return schema_to_arrow(self.structure)

    def files(self, filter: str | None = None) -> pa.Table:
        """The active files, or those that may hold a row for which `filter` is true."""
        if filter is None:
            return pa.concat_tables([FILES.empty_table(), *self._services.reader.files(self._entry, self.version)])
        chosen: list[pa.Table] = [FILES.empty_table()]
        predicate = parse(filter, self.structure)
        for batch in self._services.reader.plan(self._entry, self.version, predicate, self.metadata):
            keep = [self.may_match(predicate, add) for add in adds_from(batch)]
            chosen.append(batch.filter(pa.array(keep, pa.bool_())))
        return pa.concat_tables(chosen)

    def planned(self, predicate: Predicate) -> Iterator[AddFile]:
        """The files that may hold a row for which the predicate is true, one by one."""
        for batch in self._services.reader.plan(self._entry, self.version, predicate, self.metadata):
            for add in adds_from(batch):
                if self.may_match(predicate, add):
                    yield add

    def adds(self) -> Iterator[AddFile]:
        """The active files one by one."""
        for batch in self._services.reader.files(self._entry, self.version):
            yield from adds_from(batch)

    def facts(self, add: AddFile) -> FileFacts:
        return facts_from(add, self.structure, self.metadata.partition_columns)

    def may_match(self, predicate: Predicate, add: AddFile) -> bool:
        return may_match(predicate, self.facts(add))

    def rows(self, add: AddFile) -> pa.Table:
        return read_file(self._entry.location, self._services.storage_options, self.metadata, add)

    def to_arrow(self, filter: str | None = None) -> pa.Table:
        """The rows, or those for which `filter` is true."""
        check_readable(self._entry.name, self.protocol, self.metadata)
        parts: list[pa.Table] = [self.schema.empty_table()]
        predicate = None if filter is None else parse(filter, self.structure)
        if predicate is None:
            parts += [self.rows(add) for add in self.adds()]
        else:
            found = (self.rows(add) for add in self.planned(predicate))
            parts += [rows.filter(evaluate(predicate, rows)) for rows in found]
        return pa.concat_tables(parts)


def adds_from(batch: pa.Table) -> Iterator[AddFile]:
    """File rows of the ledger as actions."""
    for row in batch.to_pylist():
        fields = cast("dict[str, Any]", row)
        fields["partition_values"] = dict(fields["partition_values"])
        if fields["tags"] is not None:
            fields["tags"] = dict(fields["tags"])
        if fields["deletion_vector"] is not None:
            fields["deletion_vector"] = DeletionVector(**fields["deletion_vector"])
        yield AddFile(**fields)


def snapshot_at(
    services: Services, entry: TableEntry, version: int | None = None, timestamp: Timestamp | None = None
) -> Snapshot:
    """The table at a version, or as it stood at an instant; the newest version where neither is given."""
    if timestamp is not None:
        if version is not None:
            raise InvalidInputError("both version and timestamp", hint="give one of them", field="version")
        version = services.reader.version_at(entry, milliseconds(timestamp))
    return Snapshot(services, entry, services.reader.state(entry, version))


def milliseconds(timestamp: Timestamp) -> int:
    """An aware datetime or an ISO string as milliseconds since the epoch."""
    if isinstance(timestamp, str):
        try:
            moment = datetime.fromisoformat(timestamp)
        except ValueError as error:
            raise _bad_timestamp(timestamp) from error
    else:
        moment = timestamp
    if moment.tzinfo is None:
        raise _bad_timestamp(timestamp)
    return int(moment.timestamp() * 1000)


def _bad_timestamp(timestamp: Timestamp) -> InvalidInputError:
    return InvalidInputError(
        f"{timestamp!s:.100} is not an instant",
        hint="give an aware datetime, or ISO text with an offset: 2026-01-31T12:00:00Z",
        field="timestamp",
    )
