"""ISRs and leaders that change all the time, under load; run as a program it plays many seeds.

usage: python -m tests.support.simulated.replication_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter

from minikafka.simulator.cluster import LogEvent, SimCluster
from minikafka.simulator.faults import REPLICATION_FAULTS, storm
from tests.support.simulated.campaign import campaign
from tests.support.simulated.scenario import under_load

FAULTS = 10
COUNTED = (
    "replica_became_leader",
    "isr_shrinking",
    "isr_expanding",
    "isr_write_lost_race",
    "replica_truncated",
    "fetch_refused",
)
# Kafka's own defaults leave hardly time for a change of ISR within a simulated minute, and no
# follower needs more than one answer to catch up.
RESTLESS = {
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.max.bytes": "1",
}


def play(seed: int) -> Counter[str]:
    """One seed, all checkers; what happened how often. Raises what ``under_load`` raises."""
    counts: Counter[str] = Counter()

    def count(event: LogEvent) -> None:
        if event.name in COUNTED:
            counts[event.name] += 1
        elif event.name in FAULT_NAMES:
            counts["faults"] += 1

    cluster = SimCluster(seed, settings=RESTLESS if seed % 2 else None)
    cluster.observers.append(count)
    cluster.run(lambda c: under_load(c, lambda c: storm(c, FAULTS, REPLICATION_FAULTS)))
    return counts


FAULT_NAMES = frozenset(fault.__name__ for fault in REPLICATION_FAULTS)


if __name__ == "__main__":
    sys.exit(campaign(play))
