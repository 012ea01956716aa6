"""From commits to a table's state: the protocol's action reconciliation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltasql.errors import MalformedLogError
from deltasql.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    RemoveFile,
    SetTransaction,
    TableProtocol,
)
from deltasql.protocol.conflicts import FileKey


class Replay:
    """The state after the commits applied so far. Ordered by arrival, so that it is the same wherever it is made."""

    def __init__(self) -> None:
        self.protocol: TableProtocol | None = None
        self.metadata: Metadata | None = None
        self.transactions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}
        self.files: dict[FileKey, AddFile] = {}
        self.tombstones: dict[FileKey, RemoveFile] = {}

    def apply(self, actions: Iterable[Action]) -> Replay:
        for action in actions:
            match action:
                case AddFile():
                    key = (action.path, action.dv_id)
                    self.tombstones.pop(key, None)
                    # A file added again moves to the end: it now belongs to the later commit.
                    self.files.pop(key, None)
                    self.files[key] = action
                case RemoveFile():
                    key = (action.path, action.dv_id)
                    self.files.pop(key, None)
                    self.tombstones.pop(key, None)
                    self.tombstones[key] = action
                case Metadata():
                    self.metadata = action
                case TableProtocol():
                    self.protocol = action
                case SetTransaction():
                    self.transactions.pop(action.app_id, None)
                    self.transactions[action.app_id] = action
                case DomainMetadata():
                    self.domains.pop(action.domain, None)
                    self.domains[action.domain] = action
                case _:
                    pass
        return self

    def require(self, source: str) -> tuple[TableProtocol, Metadata]:
        """The protocol and metadata without which there is no table."""
        missing = [name for name, value in (("protocol", self.protocol), ("metaData", self.metadata)) if value is None]
        if self.protocol is None or self.metadata is None:
            raise MalformedLogError(
                f"{source}: no {' and no '.join(missing)} action was found",
                hint="the log is not whole: restore its earlier commits or a checkpoint",
                field=source,
            )
        return self.protocol, self.metadata


def commit_problem(actions: Sequence[Action]) -> str | None:
    """What makes these actions no commit, in words, or None: the protocol's rules on what may stand only once."""
    seen: set[tuple[object, ...]] = set()
    added: set[FileKey] = set()
    removed: set[FileKey] = set()
    for action in actions:
        match action:
            case Metadata():
                key: tuple[object, ...] = ("metaData",)
            case TableProtocol():
                key = ("protocol",)
            case SetTransaction():
                key = ("txn for application", action.app_id)
            case DomainMetadata():
                key = ("domainMetadata for domain", action.domain)
            case AddFile():
                key = ("add of", action.path)
                added.add((action.path, action.dv_id))
            case RemoveFile():
                key = ("remove of", action.path)
                removed.add((action.path, action.dv_id))
            case _:
                continue
        if key in seen:
            return " ".join(["more than one", *map(str, key)])
        seen.add(key)
    if both := added & removed:
        return f"both add and remove of {min(both)[0]}"
    return None
