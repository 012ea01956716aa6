"""How things are measured: peers alternate, the first round warms up, medians are kept with every single time."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "deltasql",
    "pyarrow",
    "pyspark",
    "delta-spark",
    "deltalake",
    "psycopg",
    "duckdb",
    "duckdb-extension-ducklake",
)


def alternate(peers: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each peer, round by round, one after the other. Each is called with the number of its round.

    Round 0 warms up and is not kept. A peer that has things to prepare returns the seconds that count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(rounds + 1):
        for name, run in peers.items():
            started = time.perf_counter()
            counted = run(number)
            taken = counted if isinstance(counted, float) else time.perf_counter() - started
            print(f"  round {number}  {name:<24} {taken:9.4f} s{'  (warm-up)' if number == 0 else ''}", flush=True)
            if number:
                seconds[name].append(round(taken, 6))
    return seconds


def keep(name: str, what: str, seconds: Mapping[str, list[float]], ratios: Mapping[str, float], **more: Any) -> Path:
    """Write a result down, with what it was measured on."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {
        "name": name,
        "what": what,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {package: version(package) for package in PACKAGES},
        "median_seconds": {peer: round(statistics.median(times), 6) for peer, times in seconds.items()},
        "seconds": dict(seconds),
        "ratios": {ratio: round(value, 3) for ratio, value in ratios.items()},
        **more,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def table(
    title: str, measured: Mapping[str, list[float]], ratios: Mapping[str, float], unit: str = "s", digits: int = 2
) -> None:
    print(f"\n{title}")
    for peer, values in measured.items():
        every = ", ".join(f"{value:.{digits}f}" for value in values)
        print(f"  {peer:<24} {statistics.median(values):8.{digits}f} {unit}   (of {every})")
    for ratio, value in ratios.items():
        print(f"  {ratio:<46} {value:6.2f}")
