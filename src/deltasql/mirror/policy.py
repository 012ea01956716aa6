"""When a checkpoint is due."""

from __future__ import annotations

from deltasql.config import MirrorSettings
from deltasql.ledger.contracts import MirrorHead, TableState
from deltasql.protocol.properties import checkpoint_interval


def checkpoint_due(head: MirrorHead, state: TableState, settings: MirrorSettings) -> bool:
    """Whether readers would have to replay a whole interval of commits.

    Counted from the last checkpoint, not by the version's number: a batch may pass over a round one.
    """
    interval = checkpoint_interval(state.metadata.configuration, settings.checkpoint_interval)
    last = head.checkpoint_version
    return head.published_version - (0 if last is None else last) >= interval
