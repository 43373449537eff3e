"""Replicas move between log directories in a storm of faults; as a program it plays many seeds.

usage: python -m tests.support.simulated.directory_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.scenario import PARTITIONS, under_load

FAULTS = 14
COUNTED = ("log_moved", "disk_failed", "log_directory_failed", "replica_became_leader")
SETTINGS: Final = {
    "log.dirs": "/one,/two",
    "log.initial.task.delay.ms": "1000",
    "log.segment.bytes": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}


def home(cluster: SimCluster, broker_id: int, partition: TopicPartition) -> str:
    """Return the log directory of a replica."""
    return cluster.replicas(partition)[broker_id].log.directory.rpartition("/")[0]


async def moving(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Request that each replica of a broker moves to the other directory; do not wait for the end.
    A broker that cannot serve the request now moves nothing."""
    hosted = [p for p in PARTITIONS if broker_id in cluster.replicas(p)]
    homes = {p: home(cluster, broker_id, p) for p in hosted}
    wanted = {p: "/two" if path == "/one" else "/one" for p, path in homes.items()}
    if not wanted:
        return
    try:
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.alter_replica_log_dirs(broker_id, wanted)
    except (KafkaError, OSError):
        cluster.note("move_refused", broker=broker_id)


STORM: Final[tuple[faults.Fault, ...]] = (
    faults.killed,
    faults.stopped,
    faults.full_disk,
    moving,
    moving,
    faults.isolated,
    faults.disconnected,
    faults.cut_off_from_one,
)


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened. Raises as
    ``under_load``."""
    cluster = SimCluster(seed, settings=SETTINGS)
    counts = counts_of(cluster, COUNTED)
    cluster.run(lambda c: under_load(c, lambda c: faults.storm(c, FAULTS, STORM)))
    return counts


if __name__ == "__main__":
    sys.exit(campaign(play))
