"""Giving each added file its place: the number of its partition, and the keys of the indexed columns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from deltasql.ledger import statements as sql
from deltasql.ledger.dialects import Session
from deltasql.ledger.dialects.base import Change, Insert, Write
from deltasql.ledger.heads import CLUSTERING_DOMAIN, Standing
from deltasql.ledger.layout import SLOTS, Layout, Slot, choose_slots
from deltasql.ledger.rows import DOMAIN, METADATA, dump, text_key
from deltasql.protocol.actions import Action, AddFile, DomainMetadata, Metadata

_MAX_KEPT = 256

PARTITION_COLUMNS = ("table_id", "partition_id", "values_key", "partition_values")
SLOT_COLUMNS = ("table_id", "slot", "column_path", "kind")


class _Clustering(msgspec.Struct):
    clusteringColumns: list[tuple[str, ...]]  # noqa: N815 (Delta's own name)


class Placed(msgspec.Struct, frozen=True):
    """The places of a commit's files, in their order, and what must be written down for them."""

    places: list[tuple[int | None, ...]]
    writes: list[Write]


class Placing:
    """Places files. Keeps what it has read of layouts and partitions, which others cannot change under it."""

    def __init__(self) -> None:
        self._layouts: OrderedDict[tuple[object, ...], Layout] = OrderedDict()
        self._partitions: OrderedDict[int, dict[str, int]] = OrderedDict()

    def place(
        self, session: Session, table_id: int, layout_key: tuple[object, ...] | None, standing: Standing
    ) -> Placed:
        """`layout_key` names the layout in force before this commit; None where there is none, or it is not known."""
        adds = [action for action in standing.actions if isinstance(action, AddFile)]
        writes: list[Write] = []
        if standing.head.layout_version == standing.head.version:
            layout = _change_layout(session, table_id, standing)
        elif adds:
            layout = self._layout(session, table_id, layout_key)
        else:
            return Placed([], [])
        numbers = self._number_partitions(session, table_id, adds, writes)
        places = [(number, *layout.keys(add)) for number, add in zip(numbers, adds, strict=True)]
        return Placed(places, writes)

    def _layout(self, session: Session, table_id: int, key: tuple[object, ...] | None) -> Layout:
        found = self._layouts.get(key) if key is not None else None
        if found is None:
            found = load_layout(session, table_id)
            if key is not None:
                _keep(self._layouts, key, found)
        return found

    def _number_partitions(
        self, session: Session, table_id: int, adds: Sequence[AddFile], writes: list[Write]
    ) -> list[int]:
        """The number of each file's partition. New ones are counted up: whoever commits holds the table's head."""
        texts = [dump(add.partition_values) for add in adds]
        known = self._partitions.get(table_id)
        if known is None:
            known = dict[str, int]()
            _keep(self._partitions, table_id, known)
        fresh: dict[str, int] = {}
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        if unknown:
            for text in unknown:
                for number, values in session.rows(sql.SELECT_PARTITION, (table_id, text_key(text))):
                    # What others have committed may be kept; what this transaction adds may yet be rolled back.
                    known[values] = number
            row = session.row(sql.SELECT_LAST_PARTITION, (table_id,))
            last = -1 if row is None or row[0] is None else row[0]
            for text in unknown:
                if text not in known:
                    last += 1
                    fresh[text] = last
        if fresh:
            rows = [(table_id, number, text_key(text), text) for text, number in fresh.items()]
            writes.append(Insert("dl_partitions", PARTITION_COLUMNS, rows))
        return [known[text] if text in known else fresh[text] for text in texts]


def _keep(kept: OrderedDict[Any, Any], key: object, value: object) -> None:
    kept[key] = value
    if len(kept) > _MAX_KEPT:
        kept.popitem(last=False)


def load_slots(session: Session, table_id: int) -> tuple[Slot, ...]:
    return tuple(Slot.from_row(row) for row in session.rows(sql.SELECT_SLOTS, (table_id,)))


def load_layout(session: Session, table_id: int) -> Layout:
    """The layout in force, as the ledger has it."""
    row = session.row(sql.select_latest(METADATA), (table_id, sql.LIVE))
    assert row is not None, "a table begins with its metadata"
    metadata = METADATA.from_row(row)
    assert isinstance(metadata, Metadata)
    return Layout.of(metadata, load_slots(session, table_id))


def _change_layout(session: Session, table_id: int, standing: Standing) -> Layout:
    """Choose the indexed columns anew. What another column was indexed under is unknown from now on."""
    metadata = next((action for action in standing.actions if isinstance(action, Metadata)), None)
    if metadata is None:
        row = session.row(sql.select_latest(METADATA), (table_id, sql.LIVE))
        assert row is not None, "a table begins with its metadata"
        found = METADATA.from_row(row)
        assert isinstance(found, Metadata)
        metadata = found
    slots = choose_slots(metadata, _clustering(session, table_id, standing.actions))
    before = load_slots(session, table_id)
    if slots != before:
        changed = [n for n in range(1, SLOTS + 1) if _numbered(slots, n) != _numbered(before, n)]
        # Before and apart from the rest: it may touch rows that the commit itself touches.
        session.send(
            [
                Change(sql.DELETE_SLOTS, (table_id,)),
                *(Change(sql.forget_keys(number), (table_id,)) for number in changed if _numbered(before, number)),
            ]
        )
        session.send([Insert("dl_skipping_columns", SLOT_COLUMNS, [slot.to_row(table_id) for slot in slots])])
    return Layout.of(metadata, slots)


def _numbered(slots: Sequence[Slot], number: int) -> Slot | None:
    return next((slot for slot in slots if slot.number == number), None)


def _clustering(session: Session, table_id: int, actions: Sequence[Action]) -> list[tuple[str, ...]]:
    """The physical paths that the table is clustered by, before or by these actions."""
    domain = next((a for a in actions if isinstance(a, DomainMetadata) and a.domain == CLUSTERING_DOMAIN), None)
    if domain is None:
        row = session.row(sql.select_live(DOMAIN, "domain"), (table_id, CLUSTERING_DOMAIN))
        found = None if row is None else DOMAIN.from_row(row)
        domain = found if isinstance(found, DomainMetadata) else None
    if domain is None or domain.removed:
        return []
    return clustering_columns(domain.configuration)


def clustering_columns(configuration: str) -> list[tuple[str, ...]]:
    """The columns that the domain `delta.clustering` names; what cannot be read names none."""
    try:
        return list(msgspec.json.decode(configuration, type=_Clustering).clusteringColumns)
    except msgspec.DecodeError:
        return []
