"""A share group during storms of faults; run as a program it plays many seeds.

usage: python -m tests.support.simulated.share_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.client import Admin
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TopicPartition
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import FAULTS, killed, storm, unreachable
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.scenario import PARTITIONS, TOPIC, prepared
from tests.support.simulated.share_members import GROUP, Workers, check_stored_states
from tests.support.simulated.workload import Writer

COORDINATORS: Final = (
    TopicPartition(GROUP_METADATA_TOPIC, 0),
    TopicPartition(SHARE_GROUP_STATE_TOPIC, 0),
)
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "min.insync.replicas": "2",
    "group.share.delivery.count.limit": "10",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.session.timeout.ms": "10000",
}
SEATS: Final = 4
MORE: Final = 50
PAUSE_MS: Final = 200
STORM: Final = 8
SHARE_FAULTS: Final = (*FAULTS, unreachable)
COUNTED: Final = ("member_removed", "replica_became_leader")


async def sharing(
    cluster: SimCluster, fault: Callable[[SimCluster], Awaitable[None]]
) -> Counter[str]:
    """Run members that come, go, and die during ``fault``, while records are written.

    A record is accepted once or delivered again: none that was confirmed is delivered again, none
    is lost, no delivery count falls. Return how often each event happened."""
    await prepared(cluster)
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        earliest = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs(ResourceType.GROUP, GROUP, earliest)
    workers, writer = Workers(cluster, TOPIC, SEATS), Writer(cluster, PARTITIONS, PAUSE_MS)
    writer.start()
    workers.start()
    checker = workers.checker
    await cluster.until("records", lambda: len(checker.settled) > MORE)
    await fault(cluster)
    await writer.stop()
    workers.settle()
    await cluster.until_whole(*PARTITIONS, *COORDINATORS)
    written = [
        (partition, offset)
        for partition, offsets in writer.acknowledged.items()
        for offset in offsets.values()
        if offset >= 0
    ]

    def all_done() -> bool:
        return all(map(checker.is_done, written))

    await cluster.until("each record accepted", all_done, 400)
    stored = await check_stored_states(cluster)
    return Counter(
        settled=len(checker.settled),
        uncertain=len(checker.uncertain - checker.settled.keys()),
        redelivered=checker.redeliveries,
        late=checker.late,
        lives=workers.lives,
        states=stored,
    )


async def share_storm(cluster: SimCluster) -> None:
    """Kill both coordinators and a leader of the topic in turn, then cause a storm of faults."""
    dice = cluster.simulation.entropy.fork("coordinators")
    victims = [*COORDINATORS, PARTITIONS[dice.randrange(len(PARTITIONS))]]
    for victim in victims:
        await cluster.until("led", lambda victim=victim: cluster.leader(victim) >= 0)  # type: ignore[misc]
        await killed(cluster, cluster.leader(victim), dice.randrange(12))
    await storm(cluster, STORM, SHARE_FAULTS)


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened. Raises as
    ``sharing``."""
    cluster = SimCluster(seed, settings=SETTINGS)
    counts = counts_of(cluster, COUNTED)
    return counts + cluster.run(lambda cluster: sharing(cluster, share_storm))


if __name__ == "__main__":
    sys.exit(campaign(play))
