"""Clients that get no metadata any more go on after a leader change: the old leader names the new
one (KIP-951)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.aio import Producer, ShareConsumer
from minikafka.client.session import Client
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.testing.simulated import SimulatedCluster, play

T0 = TopicPartition("t", 0)
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
}


def without_metadata(client: Client) -> None:
    """Answer no Metadata request of the client from now on."""
    usual = client.session.connections.request_any

    async def silence(message: Any, **keys: Any) -> Any:
        if isinstance(message, MetadataRequest):
            await asyncio.Event().wait()
        return await usual(message, **keys)

    client.session.connections.request_any = silence  # type: ignore[method-assign]


async def write_and_read(producer: Producer, reader: Any) -> None:
    """Write until the reader gets a record: a share group begins at the end of the log."""
    await producer.send_and_wait("t", b"v")
    while not await reader.poll(1_000):
        await producer.send_and_wait("t", b"v")


@pytest.mark.mission("CFAST-6")
@pytest.mark.parametrize("shares", [False, True])
def test_clients_follow_the_leader_that_is_named(shares: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        reading: Any = cluster.consumer(topics=["t"], auto_offset_reset="earliest")
        if shares:
            reading = ShareConsumer(**cluster._of_clients(), group_id="s", topics=["t"])
        old = cluster.simulation.leader(T0)
        order = [(old + step) % 3 + 1 for step in range(3)]
        async with cluster.admin() as admin:
            assert await admin.alter_partition_reassignments({T0: order}) == {T0: None}
            while await admin.list_partition_reassignments([T0]):
                pass  # until the epoch of the new order is known
        async with cluster.admin() as admin, cluster.producer() as producer, reading as reader:
            await write_and_read(producer, reader)
            assert cluster.simulation.leader(T0) == old
            without_metadata(producer)
            without_metadata(reader)
            while cluster.simulation.leader(T0) == old:
                await admin.elect_leaders(ElectionType.PREFERRED, [T0])
            async with asyncio.timeout(5):
                await write_and_read(producer, reader)

    play(scenario, settings=SETTINGS)
