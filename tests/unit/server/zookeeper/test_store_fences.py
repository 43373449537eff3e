"""Every ZooKeeper write of a controller is conditional on /controller_epoch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.ports import CheckOp, CoordinationOp, OpResult, SetOp
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ControllerMoved, ZkStore
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MOVING = ReplicaAssignment((2, 1), (2,), (1,))
FIRST = LeaderAndIsr(1, 0, (1,))
STATE = LeaderIsrAndControllerEpoch(FIRST, 1)

Write = Callable[[ZkStore, int], Awaitable[object]]


WRITES: dict[str, Write] = {
    "create_states": lambda store, fence: store.create_states({T1: STATE}, fence),
    "update_states": lambda store, fence: store.update_states({T0: FIRST.new_leader(2)}, 1, fence),
    "set_topic_assignment": lambda store, fence: store.set_topic_assignment(
        "t", None, {0: MOVING}, fence
    ),
    "change_assignments": lambda store, fence: store.change_assignments({T0: MOVING}, fence),
    "delete_topic_deletions": lambda store, fence: store.delete_topic_deletions(["t"], fence),
    "delete_topic": lambda store, fence: store.delete_topic("t", fence),
    "delete_isr_changes": lambda store, fence: store.delete_isr_changes(["0000000000"], fence),
    "delete_log_dir_events": lambda store, fence: store.delete_log_dir_events(
        ["0000000000"], fence
    ),
    "delete_preferred_election": lambda store, fence: store.delete_preferred_election(fence),
    "last wish fulfilled": lambda store, fence: store.write_reassignment({}, fence),
    "some wishes left": lambda store, fence: store.write_reassignment({T1: (2,)}, fence),
    "delete_controller": lambda store, fence: store.delete_controller(fence),
}


@pytest.fixture
async def fence(store: ZkStore, zookeeper: DirectZookeeper) -> int:
    """A controller's, with something there for each write to change."""
    _, fence = await store.register_controller_and_increment_epoch(1, 5)
    await store.create_topic("t", None, {0: (1,), 1: (1,)}, {})
    await store.create_states({T0: STATE}, fence)
    await store.request_topic_deletion("t")
    await store.propagate_isr_changes([T0])
    await store.propagate_log_dir_event(1)
    await store.request_preferred_election([T0])
    await store.write_reassignment({T0: (2,), T1: (2,)}, fence)
    return fence


def record_multis(session: DirectSession, monkeypatch: pytest.MonkeyPatch) -> list[CoordinationOp]:
    """The first operation of every multi from now on."""
    first: list[CoordinationOp] = []
    multi = session.multi

    async def recorded(ops: Sequence[CoordinationOp]) -> list[OpResult]:
        first.append(ops[0])
        return await multi(ops)

    monkeypatch.setattr(session, "multi", recorded)
    return first


@pytest.mark.mission("CEL-16", "REA-11", "REA-12")
@pytest.mark.parametrize("name", WRITES)
async def test_a_controller_of_the_past_writes_nothing(
    zookeeper: DirectZookeeper, store: ZkStore, fence: int, name: str
) -> None:
    zookeeper.transact([SetOp(paths.CONTROLLER_EPOCH, b"2")], 0)
    before = {path: (node.data, node.version) for path, node in zookeeper.nodes.items()}
    with pytest.raises(ControllerMoved):
        await WRITES[name](store, fence)
    after = {path: (node.data, node.version) for path, node in zookeeper.nodes.items()}
    assert after == before


@pytest.mark.mission("CEL-16", "REA-11", "REA-12")
@pytest.mark.parametrize("name", WRITES)
async def test_every_multi_begins_with_the_check(
    session: DirectSession,
    store: ZkStore,
    fence: int,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A deposed controller may get as far as any of the multis that a write consists of."""
    first = record_multis(session, monkeypatch)
    await WRITES[name](store, fence)
    assert first
    assert set(first) == {CheckOp(paths.CONTROLLER_EPOCH, fence)}


@pytest.mark.mission("CEL-16", "REA-12")
async def test_wishes_are_written_again_only_under_the_same_epoch(
    session: DirectSession, store: ZkStore, fence: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator has taken the node away: it is created, which is a second multi."""
    await session.delete(paths.REASSIGN_PARTITIONS)
    first = record_multis(session, monkeypatch)
    await store.write_reassignment({T1: (2,)}, fence)
    assert await store.reassignment() == {T1: (2,)}
    assert first == [CheckOp(paths.CONTROLLER_EPOCH, fence)] * 2
