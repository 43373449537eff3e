"""A fetcher starts with its first partition and ends with its last."""

from __future__ import annotations

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.support.broker.replicas import TOPIC, TOPIC_ID, ReplicaCluster

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


async def test_a_partition_given_up_before_its_fetcher_ended_can_be_removed() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2], partitions=[0, 1])
        fetchers = cluster[2].replicas.fetchers

        def fence(context: object, request: FetchRequest, reply: object) -> None:
            fenced = PartitionData(partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH)
            told = [fenced, PartitionData(partition_index=1)]
            reply(  # type: ignore[operator]
                FetchResponse(responses=[FetchableTopicResponse(TOPIC, TOPIC_ID, told)])
            )
            cluster[1].handlers[ApiKey.FETCH] = serve

        serve = cluster[1].handlers[ApiKey.FETCH]
        cluster[1].handlers[ApiKey.FETCH] = fence
        await cluster.clock.advance(1_000)
        fetcher = fetchers.fetcher(1)
        assert fetcher is not None
        assert fetcher.state_of(FIRST) is None
        assert fetcher.state_of(SECOND) is not None

        fetchers.remove([SECOND])
        assert fetchers.fetcher(1) is None
        fetchers.remove([FIRST])
        assert fetchers.source_of(FIRST) is None


@pytest.mark.mission("CSH-8")
async def test_a_leaving_broker_does_not_fetch_its_way_back_into_the_isr() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a", acks=1)
        await cluster.clock.settle()
        cluster[1].replicas.fetchers.begin_shutdown()
        await cluster.elect(2, epoch=2, isr=[2, 3])
        await cluster.clock.advance(2_000)
        assert cluster[3].replicas.fetchers.source_of(FIRST) == 2
        assert cluster[1].replicas.fetchers.source_of(FIRST) is None
        assert cluster.znodes.states[FIRST].isr == (2, 3)
