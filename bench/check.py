"""The bars: ratios that a kept result must meet. Exits 1 where one does not."""

from __future__ import annotations

import json
import sys

from bench.measure import RESULTS

# name of the result → ratio → the most it may be. These were set from the first results, with room for noise: they
# guard against getting slower and are no goals.
BARS = {
    "spark_write": {"deltasql / Delta Spark": 1.6},
    "spark_write_small": {"deltasql / Delta Spark": 0.7},
}


def check() -> int:
    failed = 0
    for name, ratios in BARS.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            print(f"{name}: not measured; run: make bench")
            failed += 1
            continue
        found = json.loads(path.read_text())["ratios"]
        for ratio, most in ratios.items():
            good = found[ratio] <= most
            print(f"{'ok  ' if good else 'FAIL'} {name}: {ratio} is {found[ratio]:.2f}, the bar is {most:.2f}")
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(check())
