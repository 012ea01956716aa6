"""Named places where tests make the process fail. A no-op unless armed.

Armed by the environment (`DELTASQL_FAILPOINT=after_put:kill`), so that a test can kill a real process at a
chosen place, or in process by `arm`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

_armed: dict[str, Callable[[], None]] = {}


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm_from_environment() -> None:
    setting = os.environ.get("DELTASQL_FAILPOINT")
    if setting:
        name, _, action = setting.partition(":")
        if action != "kill":
            raise ValueError(f"DELTASQL_FAILPOINT: unknown action {action!r}; only 'kill' is known")
        _armed[name] = _kill


_arm_from_environment()


def failpoint(name: str) -> None:
    """Do what is armed at `name`: usually nothing."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


@contextmanager
def arm(name: str, action: Callable[[], None]) -> Generator[None]:
    """Arm `name` with `action` for the length of a `with` block."""
    _armed[name] = action
    try:
        yield
    finally:
        del _armed[name]
