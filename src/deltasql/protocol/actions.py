"""The actions of a Delta commit, as frozen values.

Field names are the protocol's in snake case. `extra` keeps, in the order found, the fields this release does not
know, so that a commit passes through unchanged. Text that holds JSON (`stats`, `schema_string`) stays text:
parsing it would lose key order and the spelling of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

JsonObject = Mapping[str, Any]
PartitionValues = Mapping[str, str | None]


class _Action(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    extra: JsonObject = {}


class DeletionVector(_Action, frozen=True, kw_only=True):
    """Where the rows deleted from a file are named."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The identity of this vector among all vectors of the same file, as the protocol defines it."""
        base = f"{self.storage_type}{self.path_or_inline_dv}"
        return base if self.offset is None else f"{base}@{self.offset}"


class AddFile(_Action, frozen=True, kw_only=True):
    """A data file joins the table, or its description is replaced."""

    path: str
    partition_values: PartitionValues = {}
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def dv_id(self) -> str:
        return self.deletion_vector.unique_id if self.deletion_vector else ""


class RemoveFile(_Action, frozen=True, kw_only=True):
    """A data file leaves the table; the action stays as a tombstone until its retention has passed."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: PartitionValues | None = None
    size: int | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    stats: str | None = None

    @property
    def dv_id(self) -> str:
        return self.deletion_vector.unique_id if self.deletion_vector else ""


class Format(_Action, frozen=True, kw_only=True):
    """The format of the data files. Only Parquet exists."""

    provider: str = "parquet"
    options: Mapping[str, str] = {}


class Metadata(_Action, frozen=True, kw_only=True):
    """The table's schema, partitioning and properties."""

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = Format()
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = {}
    created_time: int | None = None


class TableProtocol(_Action, frozen=True, kw_only=True):
    """What a reader and a writer must understand. The feature lists exist exactly where the versions are 3 / 7."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class SetTransaction(_Action, frozen=True, kw_only=True):
    """How far an application has come: the table holds its work up to and including `version`."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadata(_Action, frozen=True, kw_only=True):
    """Configuration under a name of its own."""

    domain: str
    configuration: str
    removed: bool


class AddCdcFile(_Action, frozen=True, kw_only=True):
    """A file of row changes for readers of the change data feed."""

    path: str
    partition_values: PartitionValues = {}
    size: int
    data_change: bool
    tags: Mapping[str, str | None] | None = None


class CommitInfo(msgspec.Struct, frozen=True, gc=False):
    """Where a commit came from. The protocol leaves its content free, so it is kept as an ordered map."""

    fields: JsonObject

    @property
    def in_commit_timestamp(self) -> int | None:
        return self.fields.get("inCommitTimestamp")

    @property
    def timestamp(self) -> int | None:
        return self.fields.get("timestamp")

    @property
    def operation(self) -> str | None:
        return self.fields.get("operation")

    @property
    def is_blind_append(self) -> bool | None:
        return self.fields.get("isBlindAppend")


class UnknownAction(msgspec.Struct, frozen=True, gc=False):
    """An action this release does not know, carried whole."""

    name: str
    body: Any


Action = (
    AddFile
    | RemoveFile
    | Metadata
    | TableProtocol
    | SetTransaction
    | DomainMetadata
    | AddCdcFile
    | CommitInfo
    | UnknownAction
)

ActionName = Literal["add", "remove", "metaData", "protocol", "txn", "domainMetadata", "cdc", "commitInfo"]

# In the order one of our own commits lists them; an adopted commit keeps the order it was found in.
ACTION_TYPES: dict[ActionName, type] = {
    "commitInfo": CommitInfo,
    "metaData": Metadata,
    "protocol": TableProtocol,
    "txn": SetTransaction,
    "domainMetadata": DomainMetadata,
    "remove": RemoveFile,
    "add": AddFile,
    "cdc": AddCdcFile,
}
