"""Bits flip in sealed segments under load: damaged replicas are mended, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication.mending import CHECK_MS, RETRY_MS
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.scenario import PARTITIONS, under_load

SETTINGS = {
    "log.segment.bytes": "2000",
    "log.scrubber.bytes.per.second": str(1 << 30),
    "log.scrubber.interval.ms": "500",
}
WATCHED = PARTITIONS[0]
SEALED = 4  # segments that the damage may hit


def contents(cluster: SimCluster, broker_id: int) -> list[bytes]:
    """The first sealed segments of a replica."""
    segments = list(cluster.replicas(WATCHED)[broker_id].log.segments)[:SEALED]
    return [segment.read(segment.size_bytes, 0) for segment in segments]


def flip(cluster: SimCluster, broker_id: int, segment_index: int, at: int) -> None:
    """Flip a bit behind the leader epoch of the second batch, which no CRC covers."""
    segment = list(cluster.replicas(WATCHED)[broker_id].log.segments)[segment_index]
    _, second, *_ = segment.batches()
    data = cluster.host(broker_id).disk.file(segment.path).data
    data[second.position + 16 + at % (second.batch.size_bytes - 16)] ^= 1


def damaged(cluster: SimCluster) -> set[int]:
    """The brokers whose scrubber knows of damage."""
    return {
        broker_id
        for broker_id, node in cluster.nodes().items()
        if node.entities.mending.facts(1)["damaged"]
    }


def is_in_sync(cluster: SimCluster, partition: TopicPartition) -> bool:
    return set(cluster.state(partition).leader_and_isr.isr) == set(cluster.broker_ids)


async def sealed(cluster: SimCluster) -> list[bytes]:
    """Wait until all replicas have the same sealed segments, and return these."""
    await cluster.until(
        "sealed segments",
        lambda: all(len(r.log.segments) > SEALED for r in cluster.replicas(WATCHED).values()),
    )
    first, *others = (contents(cluster, broker_id) for broker_id in cluster.broker_ids)
    assert all(other == first for other in others)
    return first


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_of_two_replicas_are_mended(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        before = await sealed(cluster)
        dice = cluster.simulation.entropy.fork("bit rot")
        spared = dice.randrange(len(cluster.broker_ids))
        for number, broker_id in enumerate(cluster.broker_ids):
            if number != spared:
                flip(cluster, broker_id, dice.randrange(SEALED), dice.between(0, 99))
        await cluster.until(
            "mended",
            lambda: all(contents(cluster, b) == before for b in cluster.broker_ids),
        )
        assert is_in_sync(cluster, WATCHED)

    SimCluster(seed, settings=SETTINGS).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("seed", range(3))
def test_the_same_damage_everywhere_costs_no_other_record(seed: int) -> None:
    """No replica gives up what it has, and all are mended when one has the batch again."""

    async def fault(cluster: SimCluster) -> None:
        before = await sealed(cluster)
        for broker_id in cluster.broker_ids:
            flip(cluster, broker_id, 1, 50)
        await cluster.until("found", lambda: len(damaged(cluster)) == len(cluster.broker_ids))
        rotten = contents(cluster, cluster.leader(WATCHED))
        assert rotten != before
        await asyncio.sleep(2 * CHECK_MS / 1000)
        for broker_id in cluster.broker_ids:
            assert contents(cluster, broker_id) == rotten
        assert is_in_sync(cluster, WATCHED)
        flip(cluster, cluster.leader(WATCHED), 1, 50)
        await cluster.until(
            "mended",
            lambda: all(contents(cluster, b) == before for b in cluster.broker_ids),
            3 * RETRY_MS / 1000,
        )

    SimCluster(seed, settings=SETTINGS).run(lambda cluster: under_load(cluster, fault))
