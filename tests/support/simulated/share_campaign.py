"""A share group during storms of faults; run as a program it plays many seeds.

usage: python -m tests.support.simulated.share_campaign FIRST END
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, Final

from minikafka.client import Consumer, ConsumerConfig
from minikafka.core.share.in_flight import RecordState
from minikafka.core.share.records import ShareSnapshot, ShareUpdate, decode_record
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TopicPartition
from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import FAULTS, killed, storm, unreachable
from minikafka.testing.verify.share_groups.load import ShareGroupsWorkload
from tests.support.simulated.campaign import campaign, counts_of
from tests.support.simulated.verified import TOPIC, verified

PARTITIONS: Final = tuple(
    TopicPartition(f"{TOPIC}-{ShareGroupsWorkload.name}", number) for number in range(3)
)
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
TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
STORM: Final = 8
SHARE_FAULTS: Final = (*FAULTS, unreachable)
COUNTED: Final = ("member_removed", "replica_became_leader")


async def share_storm(cluster: SimCluster) -> None:
    """Kill both coordinators and a leader of the topic in turn, then cause a storm of faults."""
    dice = cluster.simulation.entropy.fork("coordinators")
    victims = [*COORDINATORS, PARTITIONS[dice.randrange(len(PARTITIONS))]]
    for victim in victims:
        await cluster.until("led", lambda victim=victim: cluster.leader(victim) >= 0)  # type: ignore[misc]
        await killed(cluster, cluster.leader(victim), dice.randrange(12))
    await storm(cluster, STORM, SHARE_FAULTS)
    await cluster.until_whole(*COORDINATORS)


async def check_stored_states(cluster: SimCluster) -> int:
    """Check that in the records of the share coordinator no delivery count falls, no record that is
    done becomes available, and no start offset goes back. Return the number of records."""
    counts: dict[Any, dict[int, tuple[int, int]]] = {}
    starts: dict[Any, int] = {}
    config = ConsumerConfig(auto_offset_reset="earliest")
    read = 0
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        await consumer.assign_topics(SHARE_GROUP_STATE_TOPIC)
        async for stored in consumer.read_to():
            record = decode_record(stored.key or b"", stored.value)
            assert isinstance(record, ShareSnapshot | ShareUpdate)
            state = record.state if isinstance(record, ShareSnapshot) else record
            assert state is not None, "no state is deleted"
            known, start = counts.setdefault(record.key, {}), starts.get(record.key, -1)
            assert state.start_offset == -1 or state.start_offset >= start, f"{record}: {start}"
            starts[record.key] = max(start, state.start_offset)
            for batch in state.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    before, count = known.get(offset, (RecordState.AVAILABLE, 0))
                    assert batch.delivery_count >= count, f"{record}: {count} of {offset}"
                    assert before not in TERMINAL or batch.delivery_state == before, f"{record}"
                    known[offset] = batch.delivery_state, batch.delivery_count
            read += 1
    return read


async def sharing(cluster: SimCluster) -> Counter[str]:
    """Run members that come, go, and die during a storm; return how often each event happened."""
    verdict = await verified(cluster, lambda: share_storm(cluster), ShareGroupsWorkload)
    return Counter(verdict.counts) + Counter(states=await check_stored_states(cluster))


def play(seed: int) -> Counter[str]:
    """Run one seed with all checkers; return how often each event happened."""
    cluster = SimCluster(seed, settings=SETTINGS)
    counts = counts_of(cluster, COUNTED)
    return counts + cluster.run(sharing)


if __name__ == "__main__":
    sys.exit(campaign(play))
