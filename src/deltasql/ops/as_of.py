"""All tables of a lake at one instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltasql.errors import TableNotFoundError, VersionNotFoundError
from deltasql.ops.services import Services
from deltasql.ops.snapshot import Snapshot, Timestamp, milliseconds, snapshot_at


class LakeView(Mapping[str, Snapshot]):
    """The tables that were there at an instant, by name. One that came later, or is gone since, is not among them."""

    def __init__(self, timestamp: int, snapshots: Mapping[str, Snapshot]) -> None:
        self.timestamp = timestamp
        self._snapshots = snapshots

    def table(self, name: str) -> Snapshot:
        """The table as it stood; `TableNotFoundError` where it was not there yet."""
        found = self._snapshots.get(name)
        if found is None:
            raise TableNotFoundError(
                f"there was no table {name!r} at {self.timestamp} ms",
                hint="ask for a later instant, or look at the tables that were there: list(view)",
                field="table",
            )
        return found

    def __getitem__(self, name: str) -> Snapshot:
        return self._snapshots[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)


def view_at(services: Services, timestamp: Timestamp) -> LakeView:
    moment = milliseconds(timestamp)
    snapshots: dict[str, Snapshot] = {}
    for entry in services.reader.tables():
        try:
            version = services.reader.version_at(entry, moment)
        except VersionNotFoundError:
            continue
        snapshots[entry.name] = snapshot_at(services, entry, version)
    return LakeView(moment, snapshots)
