"""Throttled replicas get their bytes at the rate that is set, as long as they are out of sync."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.replication.quota import ThrottledReplicas
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster, batch, error_of

SMALL = ReplicaFetcherConfig(replica_fetch_max_bytes=1)  # each answer brings one batch
BATCH = len(batch("v10"))
RATE = 50  # bytes a second
BYTE_RATE = "kafka.server:type={}Replication:byte-rate"


def values(count: int) -> list[str]:
    return [f"v{10 + i}" for i in range(count)]


def throttle(cluster: ReplicaCluster, leader: str = "", follower: str = "") -> None:
    """Before the election, from which brokers know of it."""
    listed = [
        ThrottledReplicas.parse(text.split(",") if text else ()) for text in (leader, follower)
    ]
    cluster.configs.by_topic[TOPIC] = TopicConfig(
        leader_throttled=listed[0], follower_throttled=listed[1]
    )


async def lag(cluster: ReplicaCluster, count: int) -> None:
    """Broker 1 leads alone; broker 2 follows, and has everything yet to copy."""
    await cluster.elect(1, isr=[1], replicas=[1, 2], tell=[1])
    for value in values(count):
        assert error_of(cluster[1].produce(value)) is ErrorCode.NONE
    await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)


def copied(node: Node) -> int:
    return node.partition().log.log_end_offset if node.replicas.hosted.get(TP) else 0


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
async def test_a_replica_out_of_sync_is_copied_at_the_rate(side: str) -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        leads, follows = side != "follower", side != "leader"
        throttle(cluster, "0:1" * leads, "0:2" * follows)
        cluster[1].replicas.throttles.limit(RATE if leads else None, None, None)
        cluster[2].replicas.throttles.limit(None, RATE if follows else None, None)
        await lag(cluster, 40)
        for second in range(1, 31):
            await cluster.clock.advance(1_000)
            assert copied(cluster[2]) * BATCH <= RATE * (second + 1) + BATCH
        assert copied(cluster[2]) * BATCH >= RATE * 20
        assert cluster.znodes.states[TP].isr == (1,)
        for name, of in (("Leader", cluster[1]), ("Follower", cluster[2])):
            throttled = leads if name == "Leader" else follows
            measured = of.metrics.snapshot()[BYTE_RATE.format(name)]
            assert (RATE / 2 < measured < RATE * 2) if throttled else measured == 0
        for node in cluster.nodes.values():
            node.replicas.throttles.limit(None, None, None)
        await cluster.clock.advance(2_000)
        assert cluster[2].held() == values(40)
        assert cluster.znodes.states[TP].isr == (1, 2)


async def test_one_in_sync_is_not_held_back() -> None:
    """Even if nothing may be moved any more: it would leave the ISR, and be throttled for good."""
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        throttle(cluster, "*", "*")
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        await cluster.clock.advance(600)
        for node in cluster.nodes.values():
            node.replicas.throttles.limit(0, 0, 0)
        answers = []
        for value in values(20):
            answers.append(cluster[1].produce(value))
            await cluster.clock.advance(20)
        assert [error_of(answer) for answer in answers] == [ErrorCode.NONE] * 20
        assert cluster[1].metrics.snapshot()[BYTE_RATE.format("Leader")] > 0
        assert cluster[2].metrics.snapshot()[BYTE_RATE.format("Follower")] > 0


@pytest.mark.parametrize(("leader", "follower"), [("0:2,1:1", "0:1,1:2"), ("", "")])
async def test_others_are_copied_at_full_speed(leader: str, follower: str) -> None:
    """Other partitions, and other replicas of the partition, are listed."""
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        throttle(cluster, leader, follower)
        for node in cluster.nodes.values():
            node.replicas.throttles.limit(0, 0, 0)
        await lag(cluster, 20)
        await cluster.clock.advance(100)
        assert cluster[2].held() == values(20)


async def test_others_of_the_same_connection_go_on() -> None:
    """The throttled partition is left out of the fetches of the follower, and comes back."""
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        near = TP._replace(partition=1)
        throttle(cluster, follower="0:2")
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[1])
        cluster[2].replicas.throttles.limit(None, RATE, None)
        await lag(cluster, 20)
        await cluster.clock.advance(600)
        before = copied(cluster[2])
        answers = []
        for value in values(30):
            answers.append(cluster[1].produce(value, topic_partition=near))
            await cluster.clock.advance(20)
        assert [error_of(answer) for answer in answers] == [ErrorCode.NONE] * 30
        assert before <= copied(cluster[2]) <= before + 1
        await cluster.clock.advance(60_000)
        assert cluster[2].held() == values(20)


class FetchOffsets(list[Any]):
    """Listens to ``ReplicaCluster.requests``: what broker 2 asks for, and holds then."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []
        self._cluster = cluster
        cluster.requests = self

    def append(self, sent: Any) -> None:
        super().append(sent)
        source, _, request, _ = sent
        if source == 2 and isinstance(request, FetchRequest):
            wanted = (p for topic in request.topics for p in topic.partitions)
            self.asked += [(p.fetch_offset, copied(self._cluster[2])) for p in wanted]


@pytest.mark.parametrize("listed", ["*", ""])
async def test_a_throttled_replica_does_not_read_ahead(listed: str) -> None:
    """What it was sent is counted before it asks for more."""
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        throttle(cluster, follower=listed)
        cluster[2].replicas.throttles.limit(None, 1 << 40, None)
        fetches = FetchOffsets(cluster)
        await lag(cluster, 10)
        await cluster.clock.advance(100)
        assert cluster[2].held() == values(10)
        assert any(asked > held for asked, held in fetches.asked) == (not listed)


async def test_a_throttled_fetch_ends_with_an_empty_response() -> None:
    async with ReplicaCluster([1]) as cluster:
        throttle(cluster, leader="*")
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        for value in values(3):
            cluster[1].produce(value)
        cluster[1].replicas.throttles.limit(RATE, None, None)
        (first,) = cluster[1].fetch(0, replica_id=2)
        assert first.records
        parked = cluster[1].fetch(0, replica_id=2)
        cluster[1].produce("v13")
        assert parked == []
        await cluster.clock.advance(500)
        (second,) = parked
        assert (second.error_code, bytes(second.records or b"")) == (0, b"")
        assert second.high_watermark == 4
        await cluster.clock.advance(20_000)
        (third,) = cluster[1].fetch(0, replica_id=2)
        assert third.records


async def test_errors_and_consumers_do_not_wait_for_the_throttle() -> None:
    async with ReplicaCluster([1]) as cluster:
        throttle(cluster, leader="*")
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        for value in values(3):
            cluster[1].produce(value)
        cluster[1].replicas.throttles.limit(0, None, None)
        cluster[1].fetch(0, replica_id=2)
        (beyond,) = cluster[1].fetch(9, replica_id=2)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        (consumed,) = cluster[1].fetch(0)
        assert consumed.records
