"""Settings: frozen, and checked whole when they are made."""

from __future__ import annotations

import msgspec

from deltasql.errors import ConfigError


class MirrorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the log is published."""

    # Versions read, put and marked together.
    batch_size: int = 64
    # A checkpoint is due this many versions after the last one; `delta.checkpointInterval` of a table goes first.
    checkpoint_interval: int = 10
    # How long a publisher may be silent before another one takes its table over.
    lease_seconds: float = 30.0
    # How long to wait for a publisher that holds a table, before the table is reported as busy.
    wait_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name in ("batch_size", "checkpoint_interval", "lease_seconds", "wait_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"the setting {name} is {getattr(self, name)}", hint="give a number above 0", field=name
                )


DEFAULT_MIRROR = MirrorSettings()
