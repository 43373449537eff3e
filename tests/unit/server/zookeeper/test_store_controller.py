"""Election and epoch, the repair of an orphaned controller node, notifications."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.cluster import Endpoint, TopicPartition
from minikafka.kernel.ports import (
    CoordinationOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    SetOp,
    WatchEvent,
    WatchKind,
)
from minikafka.server.zookeeper.store import ControllerMoved, ZkStore
from minikafka.server.zookeeper.znodes import BrokerZnode
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


async def other_store(zookeeper: DirectZookeeper) -> ZkStore:
    return ZkStore(await zookeeper.open("", 0, 0))


def broker_node(broker_id: int) -> BrokerZnode:
    return BrokerZnode(broker_id, (Endpoint("h", 9092),), 0)


@pytest.mark.mission("CEL-14")
async def test_every_controller_raises_the_epoch_by_one(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    assert await store.controller_epoch() is None
    for number in range(1, 4):
        elected = await other_store(zookeeper)
        epoch, zk_version = await elected.register_controller_and_increment_epoch(number, 5)
        assert epoch == number
        assert await store.controller_epoch() == (epoch, zk_version)
        assert await store.controller_id() == number
        await elected.session.close()
        assert await store.controller_id() is None


@pytest.mark.mission("CEL-4", "CEL-6")
async def test_one_broker_wins(zookeeper: DirectZookeeper, store: ZkStore) -> None:
    await store.register_controller_and_increment_epoch(1, 5)
    loser = await other_store(zookeeper)
    with pytest.raises(ControllerMoved, match="broker 1 is the controller"):
        await loser.register_controller_and_increment_epoch(2, 6)
    assert await store.controller_epoch() == (1, 1)


async def test_the_epoch_raised_by_another_in_between_loses_the_election(
    zookeeper: DirectZookeeper, session: DirectSession, store: ZkStore
) -> None:
    await store.register_controller_and_increment_epoch(1, 5)
    await session.delete("/controller")
    session.before_multis = [zookeeper.another_client(SetOp("/controller_epoch", b"9"))]
    with pytest.raises(ControllerMoved, match="was deleted during"):
        await store.register_controller_and_increment_epoch(1, 6)
    assert await store.controller() is None


async def test_an_election_with_a_lost_response_is_recognised(
    session: DirectSession, store: ZkStore
) -> None:
    await store.register_controller_and_increment_epoch(1, 5)
    await session.delete("/controller")
    session.lose_answers = 1
    assert await store.register_controller_and_increment_epoch(1, 6) == (2, 2)


@pytest.mark.mission("CEL-12")
async def test_the_node_of_our_own_former_session_is_not_ours(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    await store.register_controller_and_increment_epoch(1, 5)
    reborn = await other_store(zookeeper)
    node = await reborn.controller()
    assert node is not None
    assert node.broker_id == 1
    assert not reborn.is_ours(node)
    with pytest.raises(ControllerMoved):
        await reborn.register_controller_and_increment_epoch(1, 6)


@pytest.mark.mission("CDU-11")
async def test_the_controller_is_watched_whether_or_not_there_is_one(store: ZkStore) -> None:
    seen: list[WatchEvent] = []
    assert await store.controller(seen.append) is None
    await store.register_controller_and_increment_epoch(1, 5)
    await asyncio.sleep(0)
    assert [e.kind for e in seen] == [WatchKind.CREATED]
    assert await store.controller_id(seen.append) == 1
    await store.delete_controller(1)
    await asyncio.sleep(0)
    assert [e.kind for e in seen] == [WatchKind.CREATED, WatchKind.DELETED]


async def test_a_deposed_controller_cannot_delete_its_successor(
    zookeeper: DirectZookeeper, store: ZkStore
) -> None:
    _, old_version = await store.register_controller_and_increment_epoch(1, 5)
    await store.delete_controller(old_version)
    successor = await other_store(zookeeper)
    await successor.register_controller_and_increment_epoch(2, 6)
    with pytest.raises(ControllerMoved):
        await store.delete_controller(old_version)
    assert await store.controller_id() == 2


@pytest.mark.mission("R-1", "CEL-4")
@pytest.mark.parametrize("data", [b"", b"rubbish", b'{"version":1}', b'{"brokerid":"x"}'])
async def test_an_unreadable_controller_node_is_removed(
    session: DirectSession, store: ZkStore, data: bytes
) -> None:
    await session.create("/controller", data)
    node = await store.controller()
    assert node is not None
    assert (node.broker_id, node.data, node.ephemeral_owner) == (None, data, 0)
    assert await store.controller_id() is None
    assert await store.repair_controller()
    assert await store.register_controller_and_increment_epoch(1, 5) == (1, 1)


@pytest.mark.mission("R-13", "CFO-6")
async def test_a_hand_written_broker_id_is_removed(
    zookeeper: DirectZookeeper, session: DirectSession, store: ZkStore
) -> None:
    other = await other_store(zookeeper)
    await store.register_broker(broker_node(1))
    await other.register_broker(broker_node(2))
    await store.register_controller_and_increment_epoch(1, 5)
    assert not await other.repair_controller()
    for brokerid in (b"2", b"3"):
        await session.set("/controller", b'{"version":1,"brokerid":%s,"timestamp":"5"}' % brokerid)
        assert await other.repair_controller()
        assert await other.controller() is None
        assert not await other.repair_controller()
        await store.register_controller_and_increment_epoch(1, 5)


async def test_the_repair_keeps_a_newly_elected_controller(
    zookeeper: DirectZookeeper, session: DirectSession, store: ZkStore
) -> None:
    await store.register_broker(broker_node(1))
    await store.register_controller_and_increment_epoch(1, 5)
    await session.delete("/controller")
    await session.create("/controller", b"rubbish")

    def meanwhile() -> None:
        zookeeper.transact([DeleteOp("/controller")], 0)
        elected: list[CoordinationOp] = [
            CreateOp("/controller", b'{"brokerid":1}', ephemeral=True),
            SetOp("/controller_epoch", b"2", 1),
        ]
        zookeeper.transact(elected, session.session_id)

    session.before_multis = [meanwhile]
    assert not await store.repair_controller()
    assert await store.controller_id() == 1


@pytest.mark.mission("CDU-3")
async def test_isr_changes_are_announced_read_and_deleted(
    session: DirectSession, store: ZkStore
) -> None:
    _, fence = await store.register_controller_and_increment_epoch(1, 5)
    seen: list[WatchEvent] = []
    assert await store.isr_changes(seen.append) == []
    await store.propagate_isr_changes([A1, A0, A1])
    await store.propagate_isr_changes([B0])
    assert len(seen) == 1
    sequences = await store.isr_changes()
    assert sequences == ["0000000000", "0000000001"]
    assert await store.isr_change_partitions([*sequences, "0000000009"]) == {A0, A1, B0}
    data = session.zookeeper.nodes["/isr_change_notification/isr_change_0000000000"].data
    assert data == (
        b'{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"a","partition":1}]}'
    )
    await store.delete_isr_changes([*sequences, "0000000009"], fence)
    assert await store.isr_changes() == []
    with pytest.raises(ControllerMoved):
        await store.delete_isr_changes(sequences, fence + 1)


async def test_many_isr_changes_are_split(store: ZkStore) -> None:
    many = [TopicPartition("t", n) for n in range(3001)]
    await store.propagate_isr_changes(many)
    sequences = await store.isr_changes()
    assert len(sequences) == 2
    assert await store.isr_change_partitions(sequences) == set(many)


async def test_log_dir_events(store: ZkStore) -> None:
    _, fence = await store.register_controller_and_increment_epoch(1, 5)
    await store.propagate_log_dir_event(3)
    sequences = await store.log_dir_events()
    assert await store.log_dir_event_brokers(sequences) == {3}
    await store.delete_log_dir_events(sequences, fence)
    assert await store.log_dir_events() == []


async def test_administrators_requests(session: DirectSession, store: ZkStore) -> None:
    _, fence = await store.register_controller_and_increment_epoch(1, 5)
    seen: list[WatchEvent] = []
    assert await store.preferred_election(seen.append) == set()
    await store.request_preferred_election([A0, B0])
    await asyncio.sleep(0)
    assert [e.kind for e in seen] == [WatchKind.CREATED]
    with pytest.raises(NodeExists):
        await store.request_preferred_election([A1])
    assert await store.preferred_election() == {A0, B0}
    await store.delete_preferred_election(fence)
    assert await store.preferred_election() == set()

    assert await store.reassignment(seen.append) == {}
    await store.write_reassignment({A0: (1, 2), B0: (2,)}, fence)
    await store.write_reassignment({A0: (1, 2)}, fence)
    assert await store.reassignment() == {A0: (1, 2)}
    await store.write_reassignment({}, fence)
    assert await session.exists("/admin/reassign_partitions") is None
