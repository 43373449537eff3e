"""Runs many seeds of one simulated scenario, and reports which failed."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Container
from contextlib import redirect_stdout

from minikafka.testing.simulator.cluster import LogEvent, SimCluster


def counts_of(cluster: SimCluster, names: Container[str]) -> Counter[str]:
    """Return the counts of the events of these names, which grow while the cluster runs."""
    counts: Counter[str] = Counter()

    def count(event: LogEvent) -> None:
        if event.name in names:
            counts[event.name] += 1

    cluster.observers.append(count)
    return counts


def campaign(play: Callable[[int], Counter[str]]) -> int:
    """Run the seeds from the first argument up to the second, or until SIGINT; ``play`` returns
    counts of its events."""
    total: Counter[str] = Counter()
    failed: list[int] = []
    first, end = int(sys.argv[1]), int(sys.argv[2])
    started = time.monotonic()
    for seed in range(first, end):
        try:
            with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
                total += play(seed)
        except KeyboardInterrupt:
            end = seed
            break
        except BaseException:
            failed.append(seed)
            sys.stderr.write(f"seed {seed}\n{traceback.format_exc()}\n")
    took = time.monotonic() - started
    sys.stdout.write(f"{end - first} seeds in {took:.0f} s, failed: {failed}; {dict(total)}\n")
    return 1 if failed else 0
