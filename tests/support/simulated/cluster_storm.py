"""A simulated cluster in a storm of faults; run as a program it prints the trace of a seed."""

from __future__ import annotations

import sys

from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import storm
from tests.support.simulated.scenario import under_load

FAULTS = 8


def trace_of(seed: int) -> list[str]:
    cluster = SimCluster(seed)
    cluster.run(lambda cluster: under_load(cluster, lambda cluster: storm(cluster, FAULTS)))
    return [*cluster.simulation.trace, cluster.simulation.digest()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(trace_of(int(sys.argv[1]))))
