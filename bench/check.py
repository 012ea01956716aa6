"""The bars: ratios that a kept result must meet. Exits 1 where one does not."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from bench.measure import RESULTS


class Bar(NamedTuple):
    """What a ratio may be: at most so much, or at least."""

    limit: float
    at_least: bool = False

    def meets(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.limit:.2f}"


def at_most(limit: float) -> Bar:
    return Bar(limit)


def at_least(limit: float) -> Bar:
    return Bar(limit, at_least=True)


# name of the result → ratio → its bar.
BARS = {
    # These are goals: what commits without data are meant to reach.
    "commits": {
        "delta-rs / deltasql SQLite": at_least(20),
        "delta-rs / deltasql PostgreSQL": at_least(20),
    },
    "commits_concurrent": {"deltasql / bare SQL": at_least(0.5)},
    # So are these, for a table of 10,000 commits and 100,000 files.
    "planning": {
        "open: delta-rs / deltasql": at_least(50),
        "list: delta-rs / deltasql": at_least(2),
        "plan: delta-rs / deltasql": at_least(10),
    },
    # These were set from the first results, with room for noise: they guard against getting slower and are no goals.
    "spark_write": {"deltasql / Delta Spark": at_most(1.6)},
    "spark_write_small": {"deltasql / Delta Spark": at_most(0.7)},
}
# The writers of these must not have failed even once.
UNFAILING = {"commits_concurrent": "deltasql"}


def check() -> int:
    failed = 0
    for name, bars in BARS.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            print(f"{name}: not measured; run: make bench")
            failed += 1
            continue
        found = json.loads(path.read_text())
        for ratio, bar in bars.items():
            value = found["ratios"][ratio]
            failed += _say(bar.meets(value), f"{name}: {ratio} is {value:.2f}, the bar is {bar}")
        if peer := UNFAILING.get(name):
            number = found["failed_commits"][peer]
            failed += _say(number == 0, f"{name}: {number} commits of {peer} failed, the bar is none")
    return 1 if failed else 0


def _say(good: bool, text: str) -> int:
    print(f"{'ok  ' if good else 'FAIL'} {text}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(check())
