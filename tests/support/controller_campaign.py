"""Controllers fall while topics come and go; run as a program it plays many seeds.

usage: python -m tests.support.controller_campaign FIRST END
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import Counter
from contextlib import redirect_stdout

from minikafka.simulator.administration import CONTROLLER_FAULTS, TermChecker, administered
from minikafka.simulator.cluster import LogEvent, SimCluster

BROKERS = (1, 2, 3, 4)
FAULTS = 8
FAULT_NAMES = frozenset(fault.__name__ for fault in CONTROLLER_FAULTS)


def play(seed: int) -> Counter[str]:
    """One seed, all checkers; what happened how often. Raises what ``administered`` raises."""
    counts: Counter[str] = Counter()

    def count(event: LogEvent) -> None:
        if event.name in FAULT_NAMES and "lasting" in event.facts:
            counts["faults"] += 1
        elif event.name == "became_leader":
            counts["leaders"] += 1

    cluster = SimCluster(seed, BROKERS)
    cluster.observers.append(count)
    operator = cluster.run(lambda c: administered(c, FAULTS))
    checker = next(o for o in cluster.observers if isinstance(o, TermChecker))
    counts["terms"] += len(checker.terms)
    counts.update(operator.done)
    return counts


def main() -> int:
    total: Counter[str] = Counter()
    failed: list[int] = []
    first, end = int(sys.argv[1]), int(sys.argv[2])
    started = time.monotonic()
    for seed in range(first, end):
        try:
            with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
                total += play(seed)
        except BaseException:
            failed.append(seed)
            sys.stderr.write(f"seed {seed}\n{traceback.format_exc()}\n")
    took = time.monotonic() - started
    sys.stdout.write(f"{end - first} seeds in {took:.0f} s, failed: {failed}; {dict(total)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
