"""The head of a table: what a commit must know of it, and what it becomes after the commit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from deltasql.ledger.records import Prepared, in_order
from deltasql.protocol.actions import Action, DomainMetadata, Metadata, TableProtocol
from deltasql.protocol.features import writer_features
from deltasql.protocol.jsonlog import encode_commit
from deltasql.protocol.properties import in_commit_timestamps
from deltasql.protocol.rebase import NO_ROW_IDS, ROW_TRACKING_DOMAIN, Place, row_id_high_water, settle

# Names the columns that a table is clustered by.
CLUSTERING_DOMAIN = "delta.clustering"

_NOTED = (Metadata, TableProtocol, DomainMetadata)


class Head(msgspec.Struct, frozen=True):
    """The newest version of a table. `row_id_high_water` is None where it does not track rows."""

    version: int = -1
    timestamp: int = 0
    metadata_version: int = -1
    protocol_version: int = -1
    in_commit_timestamps: bool = False
    row_id_high_water: int | None = None
    # The version that last said something of the columns that files are looked up by.
    layout_version: int = -1

    def after(self, actions: Sequence[Action], version: int, timestamp: int) -> Head:
        """The head once these actions are committed."""
        noted = [action for action in actions if isinstance(action, _NOTED)]
        metadata_version, protocol_version = self.metadata_version, self.protocol_version
        timed, mark, layout_version = self.in_commit_timestamps, self.row_id_high_water, self.layout_version
        for action in noted:
            if isinstance(action, Metadata):
                metadata_version, timed = version, in_commit_timestamps(action.configuration)
                layout_version = version
            elif isinstance(action, TableProtocol):
                protocol_version, mark = version, _mark_under(action, mark)
        for action in noted:
            if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN and mark is not None:
                mark = NO_ROW_IDS if action.removed else row_id_high_water(action.configuration)
            elif isinstance(action, DomainMetadata) and action.domain == CLUSTERING_DOMAIN:
                layout_version = version
        return Head(version, timestamp, metadata_version, protocol_version, bool(timed), mark, layout_version)


class Standing(msgspec.Struct, frozen=True):
    """A commit at the place it takes: its actions and their lines, and the head that it makes."""

    actions: Sequence[Action]
    lines: bytes
    head: Head


def stand(item: Prepared, head: Head, timestamp: int) -> Standing:
    """Put a commit after `head`, whatever its writer took for the head when it was made."""
    version = head.version + 1
    mark = head.row_id_high_water
    for action in item.actions:
        if isinstance(action, TableProtocol):
            mark = _mark_under(action, mark)
    place = Place(version=version, timestamp=timestamp, read_version=item.draft.read_version, row_id_high_water=mark)
    settled, _ = settle(item.actions, place)
    if len(settled) == len(item.actions) and all(a is b for a, b in zip(settled, item.actions, strict=True)):
        return Standing(item.actions, item.lines, head.after(item.actions, version, timestamp))
    actions = in_order(settled)
    return Standing(actions, encode_commit(actions), head.after(actions, version, timestamp))


def _mark_under(protocol: TableProtocol, mark: int | None) -> int | None:
    if "rowTracking" not in writer_features(protocol):
        return None
    return NO_ROW_IDS if mark is None else mark
