"""Controllers fail while topics are changed; run as a program it plays many seeds.

usage: python -m tests.support.simulated.controller_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter

from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.administration import CONTROLLER_FAULTS, TermChecker, administered
from tests.support.simulated.campaign import campaign

BROKERS = (1, 2, 3, 4)
FAULTS = 8
FAULT_NAMES = frozenset(fault.__name__ for fault in CONTROLLER_FAULTS)


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened. Raises as
    ``administered``."""
    counts: Counter[str] = Counter()

    def count(event: LogEvent) -> None:
        if event.name in FAULT_NAMES and "lasting" in event.facts:
            counts["faults"] += 1
        elif event.name == "replica_became_leader":
            counts["leaders"] += 1

    cluster = SimCluster(seed, BROKERS)
    cluster.observers.append(count)
    operator = cluster.run(lambda c: administered(c, FAULTS))
    checker = next(o for o in cluster.observers if isinstance(o, TermChecker))
    counts["terms"] += len(checker.terms)
    counts.update(operator.done)
    return counts


if __name__ == "__main__":
    sys.exit(campaign(play))
