"""Brokers with inter.broker.protocol.version=2.0 are Kafka 2.0 to clients and to each other."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.protocol import layouts_2_0
from tests.support.simulated.raw_wire import exchange

SETTINGS = {
    "inter.broker.protocol.version": "2.0-IV1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
APIS = layouts_2_0.read()
CONTROLLED_SHUTDOWN = 7
TP = TopicPartition("t", 0)


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


def frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A request of Kafka 2.0, by hand: the first version of ControlledShutdown has no client id."""
    header = struct.pack(">hhi", key, version, correlation_id)
    client_id = b"" if (key, version) == (CONTROLLED_SHUTDOWN, 0) else b"\x00\x02me"
    return header + client_id + body


@pytest.mark.mission("PRO-1", "PRO-2", "PRO-5")
def test_every_api_of_2_0_is_served_in_every_version() -> None:
    async def scenario(cluster: SimCluster) -> set[tuple[int, int]]:
        await up(cluster)
        answered = set()
        for number, api in enumerate(APIS):
            body = layouts_2_0.encode(api.request, layouts_2_0.plain_value(api.request))
            response = await exchange(cluster, 1, frame(api.key, api.version, number, body))
            assert response is not None, f"{api} closed the connection"
            assert struct.unpack_from(">i", response) == (number,)
            _, end = layouts_2_0.decode(api.response, response, 4)
            assert end == len(response), f"{api}: {len(response) - end} bytes too many"
            answered.add((api.key, api.version))
        return answered

    answered = SimCluster(1, (1,), SETTINGS | {"offsets.topic.replication.factor": "1"}).run(
        scenario
    )
    assert len(answered) == 124
    assert {key for key, _ in answered} == set(range(43))


@pytest.mark.mission("PRO-5")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_api_versions_lists_2_0_and_nothing_else(version: int) -> None:
    async def scenario(cluster: SimCluster) -> bytes | None:
        await up(cluster)
        return await exchange(cluster, 1, frame(18, version, 5, b""))

    response = SimCluster(2, (1,), SETTINGS).run(scenario)
    newest: dict[int, int] = {}
    for api in APIS:
        newest[api.key] = max(api.version, newest.get(api.key, 0))
    rows = b"".join(struct.pack(">hhh", key, 0, last) for key, last in sorted(newest.items()))
    throttle = struct.pack(">i", 0) if version else b""
    assert response == struct.pack(">ihi", 5, 0, 43) + rows + throttle


@pytest.mark.mission("PRO-5")
def test_apis_and_versions_newer_than_2_0_are_refused() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        for key in ApiKey:
            newest = key.max_version_2_0
            if key is ApiKey.API_VERSIONS:
                continue
            version = 0 if newest is None else newest + 1
            if version > key.max_version:
                continue
            tags = b"\0" if key.is_flexible(version) else b""
            refused = await exchange(cluster, 1, frame(key, version, 5, tags + bytes(40)))
            assert refused is None, key
        # ApiVersions 3 came with Kafka 2.4; before KIP-511 the answer named no version at all.
        answer = await exchange(cluster, 1, frame(18, 3, 5, b"\0\2a\2b\0"))
        assert answer == struct.pack(">ihi", 5, 35, 0)

    SimCluster(3, (1,), SETTINGS).run(scenario)


@pytest.mark.parametrize("value", ["2.1", "2.8-IV1", "3.0", "3.9"])
def test_other_values_leave_a_broker_as_it_is(value: str) -> None:
    async def scenario(cluster: SimCluster) -> bytes | None:
        await up(cluster)
        return await exchange(cluster, 1, frame(18, 0, 5, b""))

    response = SimCluster(4, (1,), {"inter.broker.protocol.version": value}).run(scenario)
    assert response is not None
    rows = list(struct.iter_unpack(">hhh", response[10:]))
    assert (0, 0, ApiKey.PRODUCE.max_version) in rows
    assert (60, 0, ApiKey.DESCRIBE_CLUSTER.max_version) in rows
    assert len(rows) > 43


@pytest.mark.mission("PRO-5")
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_of_2_0_replicates_fails_over_and_commits(seed: int) -> None:
    """Topics, replication, a leader and a controller that die, groups and transactions."""

    async def scenario(cluster: SimCluster) -> tuple[list[bytes | None], list[bytes | None]]:
        await up(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin:
            await admin.create_topic("t", 1, 3)
            await admin.wait_for_topic("t", 1)
        settings = ProducerConfig(transactional_id="tx", acks=-1)
        async with Producer(world, config, settings) as producer:
            await producer.init_transactions()
            for number in range(6):
                async with producer.transaction():
                    await producer.send("t", b"%d" % number)
                if number == 2:
                    await cluster.host(cluster.leader(TP)).kill()
                if number == 3:
                    controller = cluster.controller_id()
                    down = set(cluster.broker_ids) - cluster.nodes().keys()
                    for broker_id in down:
                        await cluster.bring_up(broker_id)
                    await cluster.until_whole(TP)
                    assert controller is not None
                    await cluster.stop(controller)
                    await cluster.bring_up(controller)
        await cluster.until_whole(TP)
        await asyncio.sleep(3)
        found = []
        group = ConsumerConfig(
            group_id="g", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        for _ in range(2):
            values: list[bytes | None] = []
            async with Consumer(world, config, group) as consumer:
                consumer.subscribe(["t"])
                until = cluster.simulation.loop.seconds() + 20
                while len(values) < 6 and cluster.simulation.loop.seconds() < until:
                    values += [record.value for record in await consumer.poll(1_000)]
                await consumer.commit()
            found.append(values)
        ends = {i: p.log.log_end_offset for i, p in cluster.replicas(TP).items()}
        assert len(ends) == 3
        assert len(set(ends.values())) == 1
        node = json.loads(cluster.simulation.zookeeper.tree.get("/brokers/ids/1")[0])
        assert node["version"] == 4
        assert "features" not in node
        return found[0], found[1]

    first, second = SimCluster(seed, (1, 2, 3), SETTINGS).run(scenario)
    assert first == [b"%d" % number for number in range(6)]
    assert second == []  # the group had committed
