"""Verbs that the client has no methods for: the one place where the command line goes past it."""

# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltasql.client import Lake
    from deltasql.ledger.contracts import CommitDraft
    from deltasql.ops.lifecycle import DropReport
    from deltasql.ops.snapshot import Snapshot
    from deltasql.outcomes import Committed


def set_properties(lake: Lake, name: str, properties: Mapping[str, str]) -> Committed:
    from deltasql.ops.properties import draft_set_properties

    table = lake.table(name)
    snapshot = table.snapshot()
    return _commit(lake, snapshot, draft_set_properties(table._entry, snapshot, properties))


def unset_properties(lake: Lake, name: str, names: Sequence[str], *, if_exists: bool) -> Committed:
    from deltasql.ops.properties import draft_unset_properties

    table = lake.table(name)
    snapshot = table.snapshot()
    return _commit(lake, snapshot, draft_unset_properties(table._entry, snapshot, names, if_exists=if_exists))


def add_constraint(lake: Lake, name: str, constraint: str, expression: str) -> Committed:
    from deltasql.ops.properties import draft_add_constraint

    table = lake.table(name)
    snapshot = table.snapshot()
    return _commit(lake, snapshot, draft_add_constraint(table._entry, snapshot, constraint, expression))


def drop_constraint(lake: Lake, name: str, constraint: str, *, if_exists: bool) -> Committed:
    from deltasql.ops.properties import draft_drop_constraint

    table = lake.table(name)
    snapshot = table.snapshot()
    return _commit(lake, snapshot, draft_drop_constraint(table._entry, snapshot, constraint, if_exists=if_exists))


def rename_table(lake: Lake, name: str, new_name: str) -> str:
    """The table's location, which stays."""
    from deltasql.ledger.audit import this_actor
    from deltasql.ledger.engine import open_ledger
    from deltasql.ledger.lifecycle import SqlLifecycle

    entry = lake._services.reader.table(name)
    ledger = open_ledger(lake._services.ledger, create=False)
    try:
        return SqlLifecycle(ledger, this_actor()).rename(entry, new_name).location
    finally:
        ledger.close()


def drop_table(lake: Lake, name: str, *, data: bool, force: bool) -> DropReport:
    from deltasql.ledger.audit import this_actor
    from deltasql.ledger.engine import open_ledger
    from deltasql.ledger.lifecycle import SqlLifecycle
    from deltasql.ops.lifecycle import drop_table as drop

    services = lake._services
    entry = services.reader.table(name)
    ledger = open_ledger(services.ledger, create=False)
    try:
        return drop(services, SqlLifecycle(ledger, this_actor()), entry, data=data, force=force)
    finally:
        ledger.close()


def _commit(lake: Lake, snapshot: Snapshot, draft: CommitDraft | None) -> Committed:
    """What was committed; the version as it stands, where there was nothing to change."""
    from deltasql.outcomes import Committed

    if draft is None:
        return Committed(table=snapshot._entry.name, version=snapshot.version, timestamp=snapshot.timestamp)
    return lake._services.commit([draft])[0]
