"""ISRs and leaders change constantly under load; run as a program it plays many seeds.

usage: python -m tests.support.simulated.replication_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter

from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import REPLICATION_FAULTS, storm
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.scenario import under_load

FAULTS = 10
COUNTED = (
    "replica_became_leader",
    "isr_shrinking",
    "isr_expanding",
    "isr_write_lost_race",
    "replica_truncated",
    "fetch_refused",
    "broker_found_gone",
    "old_registration_removed",
    "registration_lost",
    "restarted_brokers_found",
)
# Kafka's own defaults leave hardly time for a change of ISR within a simulated minute, and no
# follower needs more than one response to catch up.
RESTLESS = {
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.max.bytes": "1",
}


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened. Raises as
    ``under_load``."""
    cluster = SimCluster(seed, settings=RESTLESS if seed % 2 else None)
    counts = counts_of(cluster, (*COUNTED, *FAULT_NAMES))
    cluster.run(lambda c: under_load(c, lambda c: storm(c, FAULTS, REPLICATION_FAULTS)))
    counts["faults"] = sum(counts.pop(name, 0) for name in FAULT_NAMES)
    return counts


FAULT_NAMES = frozenset(fault.__name__ for fault in REPLICATION_FAULTS)


if __name__ == "__main__":
    sys.exit(campaign(play))
