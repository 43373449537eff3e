"""A lagging follower fetches ahead of its log, but never up to the high watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import FetchRequest, PartitionData
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from tests.support.broker.replicas import TP, ReplicaCluster, error_of, failures

# With this limit each response has one batch of these tests.
SMALL = ReplicaFetcherConfig(replica_fetch_max_bytes=1)


class Claims(list[Any]):
    """Listens to ``ReplicaCluster.requests``: how far each Fetch of broker 2 is ahead of its log,
    and how far below the leader's high watermark it stays."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.ahead: list[tuple[int, int]] = []
        cluster.requests = self

    def append(self, sent: Any) -> None:
        super().append(sent)
        source, target, request, _ = sent
        if source != 2 or not isinstance(request, FetchRequest) or TP not in held(self._cluster):
            return
        for topic in request.topics:
            for wanted in topic.partitions:
                tp = TP._replace(partition=wanted.partition)
                end = self._cluster[2].partition(tp).log.log_end_offset
                high_watermark = self._cluster[target].partition(tp).high_watermark
                self.ahead.append((wanted.fetch_offset - end, high_watermark - wanted.fetch_offset))

    @property
    def made(self) -> list[int]:
        """For each fetch ahead of the log: how far it stays below the high watermark."""
        return [below for ahead, below in self.ahead if ahead]


def held(cluster: ReplicaCluster) -> Iterable[Any]:
    return [p.topic_partition for p in cluster[2].replicas.hosted if p.has_log]


def values(count: int) -> list[str]:
    return [f"v{i}" for i in range(count)]


async def lag(cluster: ReplicaCluster, count: int) -> None:
    """Broker 1 leads alone; broker 2 follows, and has everything yet to copy."""
    await cluster.elect(1, isr=[1], replicas=[1, 2], tell=[1])
    for value in values(count):
        assert error_of(cluster[1].produce(value)) is ErrorCode.NONE
    await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=1)


async def test_lagging_follower_fetches_ahead_before_it_has_appended() -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        claims = Claims(cluster)
        await lag(cluster, 10)
        await cluster.clock.advance(100)
        assert cluster[2].held() == values(10)
        assert sorted(claims.made, reverse=True) == [*range(9, 0, -1)]
        assert cluster.znodes.states[TP].isr == (1, 2)


async def test_in_sync_follower_does_not_fetch_ahead() -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        claims = Claims(cluster)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        for value in values(10):
            cluster[1].produce(value)
        await cluster.clock.advance(1_000)
        assert cluster[2].held() == values(10)
        assert claims.made == []
        assert cluster[1].partition().high_watermark == 10


async def test_no_partition_is_fetched_ahead_beside_one_in_sync() -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        near = TP._replace(partition=1)
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[1])
        await lag(cluster, 5)
        claims = Claims(cluster)
        answers = [cluster[1].produce(value, topic_partition=near) for value in values(20)]
        await cluster.clock.advance(1_000)
        assert [error_of(answer) for answer in answers] == [ErrorCode.NONE] * 20
        assert cluster[2].held() == values(5)
        assert all(below > 0 for below in claims.made)


def damage_third(cluster: ReplicaCluster, times: int = 1) -> None:
    """The leader responds with a corrupt batch at offset 2."""
    handler = cluster[1].handlers[ApiKey.FETCH]
    left = times

    def serve(context: Any, request: FetchRequest, reply: Any) -> None:
        def damage_and_reply(response: Any) -> None:
            nonlocal left
            for data in (data for topic in response.responses for data in topic.partitions):
                if left and begins_at(data) == 2:
                    left -= 1
                    data.records = bytes(data.records[:-1]) + b"?"
            reply(response)

        handler(context, request, damage_and_reply)

    cluster[1].handlers[ApiKey.FETCH] = serve


def begins_at(data: PartitionData) -> int:
    return int.from_bytes(bytes(data.records or b"")[:8], "big") if data.records else -1


async def test_failed_append_discards_the_next_response() -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        damage_third(cluster, times=3)
        await lag(cluster, 6)
        await cluster.clock.settle()
        assert cluster[2].held() == values(2)
        await cluster.clock.advance(2_000)
        assert cluster[2].held() == values(6)
        assert cluster.znodes.states[TP].isr == (1, 2)


@pytest.mark.parametrize("latency_ms", [0, 3])
async def test_a_new_leader_epoch_amid_it(latency_ms: int) -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        cluster.latency_ms = lambda: latency_ms
        await lag(cluster, 30)
        for epoch in (2, 3, 4):
            await cluster.clock.advance(7)
            await cluster.elect(1, isr=[1], replicas=[1, 2], epoch=epoch)
        await cluster.clock.advance(2_000)
        assert cluster[2].held() == values(30)
        assert failures(cluster[2].replicas.fetchers, 1, TP) == 0


@pytest.mark.parametrize("latency_ms", [0, 3])
async def test_new_leader_appends_no_records_fetched_ahead(latency_ms: int) -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        cluster.latency_ms = lambda: latency_ms
        await lag(cluster, 30)
        await cluster.clock.advance(20)
        await cluster.elect(2, isr=[2], replicas=[1, 2], epoch=2)  # uncleanly
        kept = cluster[2].held()
        await cluster.clock.advance(2_000)
        assert cluster[2].held() == kept
        assert cluster[1].held() == kept


async def test_fetch_ahead_times_out_like_any_other_fetch() -> None:
    config = ReplicaFetcherConfig(replica_fetch_max_bytes=1, replica_socket_timeout_ms=2_000)
    async with ReplicaCluster([1, 2], fetcher=config) as cluster:
        cluster.latency_ms = lambda: 3
        await lag(cluster, 30)
        await cluster.clock.advance(50)
        cluster.freeze(1)
        await cluster.clock.advance(2_500)
        assert failures(cluster[2].replicas.fetchers, 1, TP) > 0
        cluster.thaw(1)
        await cluster.clock.advance(2_000)
        assert cluster[2].held() == values(30)


async def test_stopping_during_a_fetch_ahead_leaves_no_task() -> None:
    async with ReplicaCluster([1, 2], fetcher=SMALL) as cluster:
        cluster.latency_ms = lambda: 3
        await lag(cluster, 30)
        await cluster.clock.advance(40)
        await cluster.stop(2)
        await cluster.clock.advance(100)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in names if name.startswith("ReplicaFetcherThread")]
