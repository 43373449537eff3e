"""Reading from followers (KIP-392): the preferred replica, and the responses of a follower."""

from __future__ import annotations

from dataclasses import replace

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from minikafka.server.broker.fetch.record_fetches import ANNOUNCE_AFTER_MS
from tests.support.broker.replicas import TOPIC, TOPIC_ID, Node, ReplicaCluster, error_of, values_in

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


def fetch(node: Node, rack: str, offset: int = 0, version: int = 12) -> PartitionData:
    wanted = FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(TOPIC, TOPIC_ID, [wanted])], rack_id=rack)
    response: PartitionData = node.ask(request, version)[0].responses[0].partitions[0]
    return response


async def replicated(cluster: ReplicaCluster) -> None:
    """Broker 1 leads; broker n is in rack rn; one record is everywhere, and all know it."""
    await cluster.elect(1)
    assert cluster[1].produce("v") == []
    await cluster.clock.advance(100)


async def test_a_consumer_is_sent_to_the_replica_of_its_rack() -> None:
    async with ReplicaCluster(selector=RACK_AWARE) as cluster:
        await replicated(cluster)
        response = fetch(cluster[1], "r2")
        assert (response.preferred_read_replica, response.records) == (2, b"")
        assert (response.high_watermark, response.error_code) == (1, ErrorCode.NONE)
        response = fetch(cluster[2], "r2")
        assert response.preferred_read_replica == -1
        assert values_in(response.records) == ["v"]
        assert response.high_watermark == 1


async def test_consumers_are_redirected_only_if_their_rack_requires_it() -> None:
    async with ReplicaCluster(selector=RACK_AWARE) as cluster:
        await replicated(cluster)
        for rack in ("", "r1", "elsewhere"):
            response = fetch(cluster[1], rack)
            assert response.preferred_read_replica == -1
            assert values_in(response.records) == ["v"]
        assert values_in(fetch(cluster[1], "r2", version=10).records) == ["v"]


async def test_consumers_are_not_redirected_to_a_lagging_or_dead_replica() -> None:
    async with ReplicaCluster(selector=RACK_AWARE) as cluster:
        await replicated(cluster)
        cluster.freeze(2)
        cluster[1].produce("w", acks=1)
        await cluster.clock.advance(5)
        assert fetch(cluster[1], "r2", offset=1).preferred_read_replica == 2
        assert fetch(cluster[1], "r2", offset=2).preferred_read_replica == -1
        gone = cluster.metadata.alive.pop(2)
        assert fetch(cluster[1], "r2").preferred_read_replica == -1
        cluster.metadata.alive[2] = replace(gone, endpoints=())
        assert fetch(cluster[1], "r2").preferred_read_replica == -1
        cluster.metadata.alive[2] = gone
        await cluster.clock.advance(20_000)
        assert cluster.znodes.states[cluster[1].partition().topic_partition].isr == (1, 3)
        assert fetch(cluster[1], "r2").preferred_read_replica == -1


async def test_without_a_selector_all_stay() -> None:
    for selector in (None, LEADER_SELECTOR):
        async with ReplicaCluster(selector=selector) as cluster:
            await replicated(cluster)
            assert fetch(cluster[1], "r2").preferred_read_replica == -1


async def test_a_follower_serves_up_to_its_high_watermark_and_no_further() -> None:
    async with ReplicaCluster() as cluster:
        await replicated(cluster)
        cluster.freeze(3)
        cluster[1].produce("w")  # on 2, and not committed
        await cluster.clock.advance(100)
        assert cluster[2].held() == ["v", "w"]
        assert values_in(fetch(cluster[2], "").records) == ["v"]
        waiting = cluster[2].fetch(1, max_wait_ms=60_000, version=11)
        assert error_of(cluster[2].fetch(3, version=11)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert waiting == []
        cluster.thaw(3)
        await cluster.clock.advance(2_000)
        assert values_in(waiting[0].records) == ["w"]


async def test_a_follower_gets_a_new_high_watermark_soon() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.advance(100)
        produced = cluster[1].produce("v")
        await cluster.clock.advance(1)
        assert error_of(produced) is ErrorCode.NONE
        assert cluster[2].partition().high_watermark == 0
        await cluster.clock.advance(ANNOUNCE_AFTER_MS)
        marks = [cluster[i].partition().high_watermark for i in (1, 2, 3)]
        assert marks == [1, 1, 1]
        asked = len(cluster.requests)
        await cluster.clock.advance(400)  # and is left in peace then
        assert len(cluster.requests) == asked


async def test_fetch_of_a_lost_connection_does_not_withhold_the_high_watermark() -> None:
    async with ReplicaCluster([1]) as cluster:
        leader = cluster[1]
        await cluster.elect(1)
        leader.produce("a", timeout_ms=60_000)
        dead, alive = (leader.fetch(1, replica_id=2, current_leader_epoch=0) for _ in range(2))
        leader.fetch(1, replica_id=3, current_leader_epoch=0)
        await cluster.clock.advance(2 * ANNOUNCE_AFTER_MS)
        assert [response.high_watermark for response in alive] == [1]
        assert len(dead) == 1
        again = leader.fetch(1, replica_id=2, current_leader_epoch=0)
        await cluster.clock.advance(2 * ANNOUNCE_AFTER_MS)
        assert again == []  # it knows


async def test_epochs_fence_consumers_at_followers_too() -> None:
    async with ReplicaCluster() as cluster:
        await replicated(cluster)
        await cluster.elect(1, epoch=3)
        for epoch, error in ((2, "FENCED_LEADER_EPOCH"), (4, "UNKNOWN_LEADER_EPOCH")):
            answers = cluster[2].fetch(0, version=12, current_leader_epoch=epoch)
            assert error_of(answers) is ErrorCode[error]
