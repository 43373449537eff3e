"""Controller requests that take several turns: other requests are served, later ones win."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CoordinationError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from minikafka.server.broker.apis.brokers.stop_replica import STOP_SLICE as SLICE
from minikafka.server.broker.apis.brokers.stop_replica import StopReplicaHandler
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster


def deletion(indexes: Iterable[int] = (0,), controller_epoch: int = 1) -> StopReplicaRequest:
    states = [StopReplicaPartitionState(index, -2, True) for index in indexes]
    return StopReplicaRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        topic_states=[StopReplicaTopicState(TOPIC, states)],
    )


async def test_a_deletion_of_many_partitions_takes_several_turns() -> None:
    count = 2 * SLICE + 1
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=range(count))
        left: list[int] = []

        async def others() -> None:
            while True:
                left.append(len(cluster[1].replicas.hosted))
                await asyncio.sleep(0)

        busy = asyncio.ensure_future(others())
        response = await cluster[1].command(deletion(range(count)), 4)
        busy.cancel()
        assert [row.partition_index for row in response.partition_errors] == list(range(count))
        assert {row.error_code for row in response.partition_errors} == {ErrorCode.NONE}
        assert {count - SLICE, count - 2 * SLICE} <= set(left)
        assert len(cluster[1].replicas.hosted) == 0


async def test_a_newer_controller_between_two_slices_ends_a_deletion() -> None:
    count = SLICE + 3
    async with ReplicaCluster([1]) as cluster:
        node = cluster[1]
        await cluster.elect(1, isr=[1], replicas=[1], partitions=range(count))

        def deleted(_: object) -> None:
            node.fence.controller_epoch = 2

        node.handlers[ApiKey.STOP_REPLICA] = StopReplicaHandler(node.replicas, node.fence, deleted)
        response = await node.command(deletion(range(count)), 4)
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert len(node.replicas.hosted) == 3


async def test_a_request_overtaken_by_a_later_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first request waited for ZooKeeper while its connection broke. The retry on the next
    connection, and the deletion after it, stay in effect."""
    async with ReplicaCluster([1]) as cluster:

        async def away(topics: object) -> None:
            raise CoordinationError("away")

        with monkeypatch.context() as patch:
            patch.setattr(cluster.configs, "load", away)
            first = asyncio.create_task(cluster.elect(1, isr=[1], replicas=[1]))
            await cluster.clock.advance(100)
        cluster.znodes.states.clear()
        again = await cluster.elect(1, isr=[1], replicas=[1])
        assert again[1].error_code == ErrorCode.NONE
        await cluster[1].command(deletion(), 4)
        await cluster.clock.advance(2_000)
        assert (await first)[1].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert cluster[1].replicas.hosted.get(TP) is None
        assert cluster[1].logs.get(TP) is None
        again = await cluster.elect(1, isr=[1], replicas=[1])
        assert again[1].error_code == ErrorCode.NONE
        assert cluster[1].replicas.hosted.get(TP) is not None
