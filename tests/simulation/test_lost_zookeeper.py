"""What clients read while brokers do not reach ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, LogEvent, SimCluster, host_name
from tests.support.simulated.scenario import PARTITIONS, TOPIC, prepared
from tests.support.simulated.workload import Writer

WATCHED = PARTITIONS[0]
AWAY_S = 30  # five session time-outs
EVERY_S = 0.1


class Seen(NamedTuple):
    """The leader of ``WATCHED`` in one response of ``broker``."""

    broker: int
    leader: int
    epoch: int


class InTurn:
    """A client that requests metadata from all brokers in turn."""

    def __init__(self, cluster: SimCluster) -> None:
        self.seen: list[Seen] = []
        self._cluster = cluster
        self._channels: dict[int, Channel] = {}

    async def until(self, reached: Callable[[], bool]) -> None:
        """Request metadata until ``reached``, at least once from each broker."""
        while True:
            for broker_id in self._cluster.broker_ids:
                self.seen.append(await self._ask(broker_id))
            if reached():
                return
            await asyncio.sleep(EVERY_S)

    async def _ask(self, broker_id: int) -> Seen:
        world = self._cluster.client_host.world
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = await Channel.open(
                world.network, world.clock, host_name(broker_id), PORT, "in-turn", ChannelConfig()
            )
        request = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
        topic = (await channel.request(request, 9, 5_000)).topics[0]
        row = next(row for row in topic.partitions if row.partition_index == WATCHED.partition)
        return Seen(broker_id, row.leader_id, row.leader_epoch)


@pytest.mark.mission("JUDGE-70")
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_alone_without_zookeeper_does_not_bring_old_leaders_back(seed: int) -> None:
    """It advertises the new leader while it is still cut off, and no client sees the old one again,
    whichever broker it asks; also when the broker is back."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        await cluster.until_whole(*PARTITIONS)
        before = cluster.state(WATCHED).leader_and_isr
        fault = faults.without_zookeeper(cluster, before.leader, AWAY_S)
        away = cluster.spawn_client(fault, "fault")
        client, brokers = InTurn(cluster), len(cluster.broker_ids)

        def agreed() -> bool:
            last = {(seen.leader, seen.epoch) for seen in client.seen[-brokers:]}
            return len(last) == 1 and last.pop()[1] > before.leader_epoch

        await client.until(lambda: agreed() or away.done())
        assert not away.done(), f"not before its return: {client.seen[-brokers:]}"
        assert client.seen[-1].leader not in (before.leader, -1)
        client.seen = client.seen[-1:]
        await client.until(away.done)
        back = asyncio.ensure_future(cluster.until_whole(*PARTITIONS))
        await client.until(back.done)
        epochs = [seen.epoch for seen in client.seen]
        assert epochs == sorted(epochs)

    SimCluster(seed).run(play)


@pytest.mark.mission("JUDGE-71")
def test_without_any_zookeeper_clients_go_on_with_the_same_leaders() -> None:
    async def play(cluster: SimCluster) -> None:
        names: list[str] = []

        def observe(event: LogEvent) -> None:
            names.append(event.name)

        cluster.observers.append(observe)
        await prepared(cluster)
        await cluster.until_whole(*PARTITIONS)
        client, writer = InTurn(cluster), Writer(cluster, PARTITIONS)
        writer.start()
        await client.until(lambda: writer.acknowledged_count > 0)
        away = cluster.spawn_client(faults.all_without_zookeeper(cluster, 1, AWAY_S), "fault")
        await client.until(lambda: "zookeeper_connection_lost" in names)
        before = writer.acknowledged_count
        await client.until(away.done)
        assert writer.acknowledged_count > before + 100
        await writer.stop()
        assert not any(writer.failed.values())
        assert len({(seen.leader, seen.epoch) for seen in client.seen}) == 1
        assert "newer_leaders_learned" not in names

    SimCluster(3).run(play)
