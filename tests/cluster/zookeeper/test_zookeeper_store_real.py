"""The store and the session keeper on a real ZooKeeper: fencing, big batches, expiry, outage."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from minikafka.kernel.cluster import (
    Endpoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from minikafka.kernel.ports import BadVersion, NodeExists, SetOp, WatchKind
from minikafka.server.zookeeper.session import ZkSession, ZkSessionConfig
from minikafka.server.zookeeper.store import ControllerMoved, ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode
from minikafka.world.real.world import RealClock
from minikafka.world.real.zookeeper import RealCoordination
from tests.support.zookeeper.process import ZookeeperProcess

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

FIRST = LeaderAndIsr(1, 0, (1, 2, 3))


@pytest.fixture
async def connect(shared_zookeeper: ZookeeperProcess) -> str:
    return f"{shared_zookeeper.connect}/store/{uuid.uuid4().hex}"


@pytest.fixture
async def store(connect: str) -> AsyncIterator[ZkStore]:
    session = await RealCoordination().open(connect, 10_000, 10_000)
    store = ZkStore(session)
    await store.create_persistent_paths()
    yield store
    await session.close()


def broker(broker_id: int) -> BrokerZnode:
    return BrokerZnode(broker_id, (Endpoint("127.0.0.1", 9092),), 0)


async def test_a_big_topic_lives_and_dies(store: ZkStore) -> None:
    count = 1000
    partitions = [TopicPartition("big", n) for n in range(count)]
    epoch, fence = await store.register_controller_and_increment_epoch(1, 5)
    assert epoch == 1
    await store.create_topic("big", uuid.uuid4(), {n: [1, 2, 3] for n in range(count)}, {})
    first = {tp: LeaderIsrAndControllerEpoch(FIRST, epoch) for tp in partitions}
    assert await store.create_states(first, fence) == dict.fromkeys(partitions, FIRST)
    raced = partitions[700]
    shrunk = LeaderIsrAndControllerEpoch(replace(FIRST, isr=(1,)), epoch)
    assert await store.update_isrs({raced: shrunk}) == {raced: 1}
    wanted = dict.fromkeys(partitions, FIRST.new_leader(2))
    results = await store.update_states(wanted, epoch, fence)
    assert isinstance(results.pop(raced), BadVersion)
    assert set(results.values()) == {replace(FIRST.new_leader(2), zk_version=1)}
    found = await store.leader_isr_states(partitions)
    assert found.pop(raced).leader_and_isr.isr == (1,)
    assert {state.leader_and_isr for state in found.values()} == set(results.values())
    await store.request_topic_deletion("big")
    await store.delete_topic("big", fence)
    assert await store.topics() == await store.topic_deletions() == []


async def test_a_deposed_controller_is_fenced(store: ZkStore, connect: str) -> None:
    _, fence = await store.register_controller_and_increment_epoch(1, 5)
    await store.create_topic("t", uuid.uuid4(), {0: [1]}, {})
    await store.delete_controller(fence)
    successor = ZkStore(await RealCoordination().open(connect, 10_000, 10_000))
    assert (await successor.register_controller_and_increment_epoch(2, 6))[0] == 2
    state = {TopicPartition("t", 0): LeaderIsrAndControllerEpoch(FIRST, 1)}
    with pytest.raises(ControllerMoved):
        await store.create_states(state, fence)
    with pytest.raises(ControllerMoved):
        await store.register_controller_and_increment_epoch(1, 7)
    assert await successor.controller_id() == 2
    await successor.session.close()


@pytest.mark.mission("R-1", "R-13")
async def test_an_orphaned_controller_node_is_repaired(store: ZkStore) -> None:
    await store.register_broker(broker(1))
    await store.session.create("/controller", b"rubbish")
    assert await store.repair_controller()
    await store.register_controller_and_increment_epoch(1, 5)
    assert not await store.repair_controller()
    await store.session.set("/controller", b'{"version":1,"brokerid":2,"timestamp":"5"}')
    assert await store.repair_controller()
    assert await store.register_controller_and_increment_epoch(1, 5) == (2, 2)


async def test_empty_znodes_hold_null_as_in_kafka(store: ZkStore, connect: str) -> None:
    kazoo = KazooClient(connect)
    await asyncio.to_thread(kazoo.start)
    # Kafka reads a producer id block that is null as none, and fails on one that is empty
    assert (await asyncio.to_thread(kazoo.get, "/latest_producer_id_block"))[0] is None
    await asyncio.to_thread(kazoo.stop)
    assert await store.allocate_producer_ids(1) == range(1000)


async def expire(session: Any, connect: str) -> None:
    """Take the session over with a second client and close it there."""
    client = KazooClient(connect, client_id=session._client.client_id)
    await asyncio.to_thread(client.start)
    await asyncio.to_thread(client.stop)


async def test_a_broker_is_registered_again_after_expiry(connect: str) -> None:
    keeper = ZkSession(RealCoordination(), RealClock(), ZkSessionConfig(connect, 10_000), 1)
    epochs: asyncio.Queue[int] = asyncio.Queue()

    async def register(store: ZkStore) -> None:
        epochs.put_nowait(await store.register_broker(broker(1)))

    keeper.on_new_session(register)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
        await keeper.start(tasks)
        await keeper.store.create_persistent_paths()
        first = await keeper.store.register_broker(broker(1))
        await expire(keeper.session, connect)
        second = await epochs.get()
        assert second > first
        assert (await keeper.store.brokers())[1].epoch == second
        await keeper.close()


async def test_a_session_survives_a_server_that_accepts_and_never_responds(
    own_zookeeper: ZookeeperProcess,
) -> None:
    """As a ZooKeeper server does to connections made while it starts. Kazoo would wait for the
    response until the session had expired."""
    session = await RealCoordination().open(own_zookeeper.connect, 9_000, 9_000)
    store = ZkStore(session)
    await store.create_persistent_paths()
    await store.register_broker(broker(1))
    own_zookeeper.kill()
    connects: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connects.put_nowait(writer)

    silent = await asyncio.start_server(accept, "127.0.0.1", own_zookeeper.port)
    first = await connects.get()
    async with asyncio.timeout(8):  # while the session could still be alive
        second = await connects.get()
    silent.close()
    await asyncio.to_thread(own_zookeeper.start)
    async with asyncio.timeout(20):
        assert await store.broker_ids() == [1]
    for writer in (first, second):
        writer.close()
    await session.close()


async def test_requests_outlive_an_outage(own_zookeeper: ZookeeperProcess) -> None:
    session = await RealCoordination().open(own_zookeeper.connect, 20_000, 10_000)
    store = ZkStore(session)
    await store.create_persistent_paths()
    await store.register_broker(broker(1))
    changed: asyncio.Queue[Any] = asyncio.Queue()
    await store.topics(changed.put_nowait)
    own_zookeeper.kill()
    calls = [store.broker_ids(), store.create_topic("t", uuid.uuid4(), {0: [1]}, {})]
    waiting = asyncio.gather(*calls)
    await asyncio.to_thread(own_zookeeper.start)
    async with asyncio.timeout(20):
        assert (await waiting)[0] == [1]
        assert (await changed.get()).kind is WatchKind.CHILDREN
    assert await store.topics() == ["t"]
    with pytest.raises(NodeExists):
        await store.create_topic("t", uuid.uuid4(), {0: [1]}, {})
    await session.multi([SetOp("/brokers/topics/t", b"{}", 0)])
    await session.close()
