"""Topics: fenced and batched state writes, conditional ISR updates, creation and deletion."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.ports import (
    BadVersion,
    CoordinationError,
    CreateOp,
    NodeExists,
    NoNode,
    SetOp,
    WatchEvent,
)
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ControllerMoved, TopicAssignment, ZkStore
from tests.support.zookeeper.direct import DirectSession, DirectZookeeper

TOPIC_ID = UUID(int=7)
FIRST = LeaderAndIsr(1, 0, (1, 2))


def partitions(count: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, n) for n in range(count)]


def states(count: int) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
    return {tp: LeaderIsrAndControllerEpoch(FIRST, 1) for tp in partitions(count)}


def isr_of(*isr: int, over: int = 0) -> LeaderIsrAndControllerEpoch:
    """An ISR to be written over this version of the state."""
    return LeaderIsrAndControllerEpoch(replace(FIRST, isr=isr, zk_version=over), 1)


@pytest.fixture
async def fence(store: ZkStore, zookeeper: DirectZookeeper) -> int:
    """The zkVersion of an elected controller's epoch; topic ``t`` exists."""
    _, zk_version = await store.register_controller_and_increment_epoch(1, 5)
    await store.create_topic("t", TOPIC_ID, {0: [1, 2]}, {})
    zookeeper.multis.clear()
    return zk_version


@pytest.mark.mission("CDU-4", "CDU-7")
async def test_a_topic_is_made_with_its_configuration(store: ZkStore) -> None:
    seen: list[WatchEvent] = []
    assert await store.topics(seen.append) == []
    await store.create_topic("t", TOPIC_ID, {0: [1, 2], 1: [2, 1]}, {"retention.ms": "5"})
    await store.create_topic("s", None, {0: [1]}, {})
    assert len(seen) == 1
    assert await store.topics() == ["s", "t"]
    assert await store.topic_exists("t")
    assert not await store.topic_exists("u")
    assert await store.topic_config("t") == {"retention.ms": "5"}
    changed: list[WatchEvent] = []
    plan = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}
    assert await store.topic_assignments(["t", "u", "s"], changed.append) == {
        "t": TopicAssignment(TOPIC_ID, plan),
        "s": TopicAssignment(None, {0: ReplicaAssignment((1,))}),
    }
    grown = {**plan, 2: ReplicaAssignment((1, 2))}
    await store.set_topic_assignment("t", TOPIC_ID, grown)
    assert [e.path for e in changed] == ["/brokers/topics/t"]
    assert (await store.topic_assignments(["t"]))["t"].partitions == grown


async def test_a_topic_that_exists_is_not_made_again(store: ZkStore) -> None:
    await store.create_topic("t", TOPIC_ID, {0: [1]}, {"a": "1"})
    with pytest.raises(NodeExists, match="/brokers/topics/t"):
        await store.create_topic("t", UUID(int=8), {0: [2]}, {"a": "2"})
    assert await store.topic_config("t") == {"a": "1"}


async def test_a_configuration_left_behind_is_replaced(store: ZkStore) -> None:
    await store.set_entity_config("topics", "t", {"old": "1"})
    await store.create_topic("t", TOPIC_ID, {0: [1]}, {"new": "2"})
    assert await store.topic_config("t") == {"new": "2"}


async def test_a_lost_response_does_not_create_a_topic_twice(
    session: DirectSession, store: ZkStore
) -> None:
    session.lose_answers = 1
    await store.create_topic("t", TOPIC_ID, {0: [1]}, {})
    assert await store.topics() == ["t"]


async def test_first_states_are_written_in_few_multis(
    zookeeper: DirectZookeeper, store: ZkStore, fence: int
) -> None:
    results = await store.create_states(states(1000), fence)
    assert results == dict.fromkeys(partitions(1000), FIRST)
    assert zookeeper.multis == [2, 501, 501, 501, 501]
    assert await store.leader_isr_states([*partitions(1000), TopicPartition("x", 0)]) == (
        states(1000)
    )


async def test_a_partition_that_has_a_state_already_is_reported(store: ZkStore, fence: int) -> None:
    await store.create_states(states(2), fence)
    results = await store.create_states(states(4), fence)
    assert [type(results[tp]) for tp in partitions(4)] == [
        NodeExists,
        NodeExists,
        LeaderAndIsr,
        LeaderAndIsr,
    ]


async def test_states_of_a_topic_that_has_gone_are_reported(store: ZkStore, fence: int) -> None:
    gone = TopicPartition("gone", 0)
    results = await store.create_states({**states(1), gone: states(1)[partitions(1)[0]]}, fence)
    assert isinstance(results[gone], NoNode)
    assert results[partitions(1)[0]] == FIRST


async def test_states_are_updated_each_on_its_own_version(
    session: DirectSession, store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    await store.create_states(states(5), fence)
    raced = partitions(5)[3]
    assert await store.update_isrs({raced: isr_of(1)}) == {raced: 1}
    zookeeper.multis.clear()
    wanted = dict.fromkeys(partitions(5), FIRST.new_leader(2))
    wanted[TopicPartition("gone", 0)] = FIRST
    results = await store.update_states(wanted, 1, fence)
    assert isinstance(results[raced], BadVersion)
    assert isinstance(results[TopicPartition("gone", 0)], NoNode)
    done = FIRST.new_leader(2)
    for tp in partitions(5):
        if tp != raced:
            assert results[tp] == replace(done, zk_version=1)
    assert zookeeper.multis == [7, 5]  # a reading showed which could not be done
    found = await store.leader_isr_states([raced])
    assert found[raced].leader_and_isr == LeaderAndIsr(1, 0, (1,), 1)


@pytest.mark.mission("CEL-16")
async def test_every_write_of_a_deposed_controller_is_refused(
    zookeeper: DirectZookeeper, store: ZkStore, fence: int
) -> None:
    await store.create_states(states(2), fence)
    zookeeper.transact([SetOp("/controller_epoch", b"2")], 0)
    before = {path: (node.data, node.version) for path, node in zookeeper.nodes.items()}
    wanted = dict.fromkeys(partitions(2), FIRST.new_leader(2))
    for write in (
        lambda: store.create_states(states(3), fence),
        lambda: store.update_states(wanted, 1, fence),
        lambda: store.set_topic_assignment("t", TOPIC_ID, {}, fence),
        lambda: store.delete_topic("t", fence),
        lambda: store.delete_topic_deletions(["t"], fence),
        lambda: store.delete_controller(fence),
    ):
        with pytest.raises(ControllerMoved):
            await write()
    after = {path: (node.data, node.version) for path, node in zookeeper.nodes.items()}
    assert after == before


async def test_a_controller_deposed_between_batch_and_single_writes_is_refused(
    session: DirectSession, store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    await store.create_states(states(3), fence)
    wanted = dict.fromkeys(partitions(3), FIRST.new_leader(2))
    wanted[partitions(3)[1]] = replace(FIRST, zk_version=9)

    depose = zookeeper.another_client(SetOp("/controller_epoch", b"2"))
    session.before_multis = [zookeeper.another_client(), depose]  # the batch, the first single one
    with pytest.raises(ControllerMoved):
        await store.update_states(wanted, 1, fence)


async def test_a_contended_partition_does_not_block_writes_of_others(
    session: DirectSession, store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    """One before the multi; another after the reading, before the multi of the rest."""
    await store.create_states(states(4), fence)
    zookeeper.multis.clear()
    first, second, *others = partitions(4)
    session.before_multis = [
        zookeeper.another_client(SetOp(paths.partition_state(tp), b"{}")) for tp in (first, second)
    ]
    wanted = dict.fromkeys(partitions(4), FIRST.new_leader(2))
    results = await store.update_states(wanted, 1, fence)
    assert zookeeper.multis == [5, 4, 2, 2, 2]
    assert [isinstance(results.pop(tp), BadVersion) for tp in (first, second)] == [True, True]
    assert results == dict.fromkeys(others, replace(FIRST.new_leader(2), zk_version=1))


async def test_state_writes_with_lost_responses_count_as_done(
    session: DirectSession, store: ZkStore, fence: int
) -> None:
    session.lose_answers = 3
    assert await store.create_states(states(3), fence) == dict.fromkeys(partitions(3), FIRST)
    session.lose_answers = 1
    wanted = dict.fromkeys(partitions(3), FIRST.new_leader(2))
    results = await store.update_states(wanted, 1, fence)
    assert results == dict.fromkeys(partitions(3), replace(FIRST.new_leader(2), zk_version=1))
    session.lose_requests = 2
    again = {tp: r for tp, r in results.items() if isinstance(r, LeaderAndIsr)}
    results = await store.update_states(again, 1, fence)
    assert {r.zk_version for r in results.values() if isinstance(r, LeaderAndIsr)} == {2}


async def test_after_a_lost_batch_raced_writes_fail_as_bad_version(
    session: DirectSession, store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    """The batch was done, its answer lost, and a leader has changed one ISR since."""
    await store.create_states(states(3), fence)
    raced = partitions(3)[1]
    session.lose_answers = 1
    overtake = zookeeper.another_client(SetOp(paths.partition_state(raced), b"{}"))
    session.before_multis = [zookeeper.another_client(), overtake]
    wanted = dict.fromkeys(partitions(3), FIRST.new_leader(2))
    results = await store.update_states(wanted, 1, fence)
    done = replace(FIRST.new_leader(2), zk_version=1)
    assert isinstance(results.pop(raced), BadVersion)
    assert results == {partitions(3)[0]: done, partitions(3)[2]: done}


async def test_a_leader_writes_its_isr_conditionally(
    session: DirectSession, store: ZkStore, fence: int
) -> None:
    tp, gone = partitions(1)[0], TopicPartition("gone", 0)
    await store.create_states(states(1), fence)
    assert await store.update_isrs({tp: isr_of(1)}) == {tp: 1}
    assert await store.update_isrs({tp: isr_of(1, 2)}) == {tp: None}
    assert await store.update_isrs({tp: isr_of(1)}) == {tp: 1}  # what we meant is there already
    session.lose_answers = 1
    assert await store.update_isrs({tp: isr_of(1, 2, over=1)}) == {tp: 2}
    assert await store.update_isrs({gone: isr_of(1)}) == {gone: None}
    await session.set(paths.partition_state(tp), b"garbage")
    assert await store.update_isrs({tp: isr_of(1, over=2)}) == {tp: None}
    assert await store.update_isrs({}) == {}


async def test_a_leader_writes_many_isrs_in_one_multi(
    store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    wanted = dict.fromkeys(partitions(400), isr_of(1))
    await store.create_states(states(400), fence)
    zookeeper.multis.clear()
    assert await store.update_isrs(wanted) == dict.fromkeys(wanted, 1)
    assert len(zookeeper.multis) == 1
    raced, done, *_ = wanted
    overtaken = dict.fromkeys(wanted, isr_of(1, 2, over=1))
    await store.update_isrs({raced: isr_of(2, over=1), done: overtaken[done]})
    expected = {**dict.fromkeys(wanted, 2), raced: None}
    assert await store.update_isrs(overtaken) == expected


async def test_one_isr_that_cannot_be_written_keeps_no_other_from_it(
    store: ZkStore, zookeeper: DirectZookeeper, fence: int
) -> None:
    good, forbidden, last = partitions(3)
    await store.create_states(states(3), fence)
    zookeeper.forbidden.add(paths.partition_state(forbidden))
    results = await store.update_isrs(dict.fromkeys(partitions(3), isr_of(1)))
    assert isinstance(results.pop(forbidden), CoordinationError)
    assert results == {good: 1, last: 1}


@pytest.mark.mission("CDU-5")
async def test_a_topic_is_marked_and_deleted_to_the_last_node(
    session: DirectSession, zookeeper: DirectZookeeper, store: ZkStore, fence: int
) -> None:
    before = set(zookeeper.nodes) - {"/brokers/topics/t", "/config/topics/t"}
    await store.create_states(states(300), fence)
    seen: list[WatchEvent] = []
    assert await store.topic_deletions(seen.append) == []
    await store.request_topic_deletion("t")
    with pytest.raises(NodeExists):
        await store.request_topic_deletion("t")
    assert len(seen) == 1
    assert await store.topic_deletions() == ["t"]
    assert await store.topic_marked_for_deletion("t")
    zookeeper.multis.clear()
    await store.delete_topic("t", fence)
    assert set(zookeeper.nodes) == before
    assert zookeeper.multis == [501, 103, 3]
    await store.delete_topic("t", fence)  # nothing left to do


async def test_a_deletion_is_on_the_list_until_the_tree_has_gone(
    session: DirectSession, zookeeper: DirectZookeeper, store: ZkStore, fence: int
) -> None:
    """A znode is added to the tree during the deletion. A controller that dies here leaves all
    that its successor needs to complete the deletion."""
    await store.create_states(states(2), fence)
    await store.request_topic_deletion("t")

    def look() -> None:
        if paths.topic("t") in zookeeper.nodes:
            assert {"/config/topics/t", "/admin/delete_topics/t"} <= set(zookeeper.nodes)

    add = zookeeper.another_client(CreateOp("/brokers/topics/t/partitions/9", b""))
    session.before_multis = [add, *[look] * 20]
    await store.delete_topic("t", fence)
    assert paths.topic("t") not in zookeeper.nodes
    assert await store.topic_deletions() == []


async def test_a_deletion_goes_on_where_another_controller_stopped(
    session: DirectSession, zookeeper: DirectZookeeper, store: ZkStore, fence: int
) -> None:
    await store.create_states(states(2), fence)
    await store.request_topic_deletion("t")
    await session.delete("/brokers/topics/t/partitions/0/state")
    await session.delete("/config/topics/t")
    await store.delete_topic("t", fence)
    assert await store.topics() == []
    assert await store.topic_deletions() == []


async def test_deletions_of_unknown_topics_are_taken_off_the_list(
    store: ZkStore, fence: int
) -> None:
    await store.request_topic_deletion("ghost")
    await store.delete_topic_deletions(["ghost", "never"], fence)
    assert await store.topic_deletions() == []
