"""Random sequences of events against a naive model of what must be true when all is quiet."""

import asyncio
import json
import posixpath
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from minikafka.core.controller.assignment import is_being_reassigned
from minikafka.core.controller.reassignment import is_complete
from minikafka.core.controller.states import (
    PARTITION_PREDECESSORS,
    REPLICA_PREDECESSORS,
    PartitionState,
)
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.ports import WatchEvent
from minikafka.server.controller import state_machines as machines
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import catch_up
from tests.support.zookeeper.direct import DirectZookeeper

BROKERS = (1, 2, 3)
TOPICS = ("a", "b")

EVENTS = st.one_of(
    st.tuples(st.just("kill"), st.sampled_from(BROKERS)),
    st.tuples(st.just("start"), st.sampled_from(BROKERS)),
    st.tuples(st.just("bounce"), st.sampled_from(BROKERS)),
    st.tuples(
        st.just("create"),
        st.tuples(
            st.sampled_from(TOPICS),
            st.lists(st.permutations(BROKERS).map(tuple), min_size=1, max_size=2),
            st.integers(1, 3),
        ),
    ),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
    st.tuples(st.just("grow"), st.sampled_from(TOPICS)),
    st.tuples(st.just("resign"), st.none()),
    st.tuples(st.just("shrink"), st.sampled_from(TOPICS)),
    st.tuples(st.just("shutdown"), st.sampled_from(BROKERS)),
    st.tuples(
        st.just("reassign"),
        st.tuples(st.sampled_from(TOPICS), st.permutations(BROKERS).map(tuple), st.integers(1, 3)),
    ),
    st.tuples(st.just("give up"), st.sampled_from(TOPICS)),
    st.tuples(st.just("catch up"), st.sampled_from(TOPICS)),
    st.tuples(st.just("elect"), st.tuples(st.sampled_from(TOPICS), st.sampled_from(ElectionType))),
)


class History:
    """Every state znode ever written: at most one leader per partition and leader epoch."""

    def __init__(self, zookeeper: DirectZookeeper) -> None:
        self.leaders: dict[tuple[tuple[str, int], int], int] = {}
        self.epochs: dict[tuple[str, int], tuple[int, int]] = {}
        self.zookeeper = zookeeper
        zookeeper.event_listeners.append(self.on_event)

    def on_event(self, event: WatchEvent) -> None:
        path = event.path
        if posixpath.basename(path) != "state" or path not in self.zookeeper.nodes:
            return
        node = self.zookeeper.nodes[path]
        state = json.loads(node.data)
        key = (path, node.czxid)  # a topic made again is another one
        assert (
            self.leaders.setdefault((key, state["leader_epoch"]), state["leader"])
            == (state["leader"])
        )
        last_epoch, last_controller = self.epochs.get(key, (0, 0))
        assert state["leader_epoch"] >= last_epoch
        assert state["controller_epoch"] >= last_controller
        self.epochs[key] = (state["leader_epoch"], state["controller_epoch"])


async def happen(cluster: ClusterOfControllers, event: Any, what: Any) -> None:
    store = ZkStore(cluster.zookeeper.new_session())
    if event == "kill" and what in cluster.nodes and len(cluster.nodes) > 1:
        await cluster.kill(what)
    elif event == "start" and what not in cluster.nodes:
        cluster.brokers.down.discard(what)
        await cluster.start(what)
    elif event == "bounce" and what in cluster.nodes and len(cluster.nodes) > 1:
        await cluster.lose_session(what)
    elif event == "create":
        name, replicas, factor = what
        if not await store.topic_exists(name):
            await cluster.create_topic(name, *(r[:factor] for r in replicas))
    elif event == "delete" and await store.topic_exists(what):
        if not await store.topic_marked_for_deletion(what):
            await store.request_topic_deletion(what)
    elif event == "grow":
        found = (await store.topic_assignments([what])).get(what)
        if found is not None and len(found.partitions) < 4:
            like_the_first = ReplicaAssignment(found.partitions[0].replicas)
            grown = {**found.partitions, len(found.partitions): like_the_first}
            await store.set_topic_assignment(what, found.topic_id, grown)
    elif event == "resign" and "/controller" in cluster.zookeeper.nodes:
        cluster.zookeeper.delete("/controller")
    elif event == "shrink":
        await shrink(store, TopicPartition(what, 0))
    elif event == "shutdown" and what in cluster.nodes and len(cluster.nodes) > 1:
        await cluster.active.controlled_shutdown(what, -1)
        await cluster.kill(what)
    elif event == "reassign":
        topic, replicas, factor = what
        wanted = {TopicPartition(topic, 0): replicas[:factor]}
        await cluster.active.alter_partition_reassignments(wanted)
    elif event == "give up":
        await cluster.active.alter_partition_reassignments({TopicPartition(what, 0): None})
    elif event == "catch up":
        for number in range(4):
            if f"/brokers/topics/{what}/partitions/{number}/state" in cluster.zookeeper.nodes:
                await catch_up(cluster, TopicPartition(what, number))
    elif event == "elect":
        topic, election_type = what
        await cluster.active.elect_leaders([TopicPartition(topic, 0)], election_type)
    await cluster.settle()


async def shrink(store: Any, tp: TopicPartition) -> None:
    """The leader drops its last follower from the ISR, and is late in saying so."""
    from dataclasses import replace

    found = (await store.leader_isr_states([tp])).get(tp)
    if found is not None and len(found.leader_and_isr.isr) > 1:
        known = found.leader_and_isr
        isr = tuple(r for r in known.isr if r == known.leader) or known.isr[:1]
        await store.update_isrs({tp: replace(found, leader_and_isr=replace(known, isr=isr))})


async def check(cluster: ClusterOfControllers) -> None:
    """The naive model: what ZooKeeper and the context must say when all is quiet."""
    controllers = [n.controller for n in cluster.nodes.values()]
    (active,) = [c for c in controllers if c.is_active]
    assert {c.active_controller_id for c in controllers} == {active.active_controller_id}
    context = active.context
    live = set(cluster.nodes)
    assert set(context.brokers) == live
    store = ZkStore(cluster.zookeeper.new_session())
    topics = await store.topics()
    assert set(topics) == context.all_topics
    assignments = await store.topic_assignments(topics)
    for topic in topics:
        assert await store.topic_marked_for_deletion(topic) == (
            topic in context.topics_to_be_deleted
        )
        partitions = [TopicPartition(topic, p) for p in assignments[topic].partitions]
        assert context.partitions_for_topic(topic) == partitions
        if topic in context.topics_to_be_deleted:
            replicas = {r for a in assignments[topic].partitions.values() for r in a.replicas}
            moving = any(tp in context.partitions_being_reassigned for tp in partitions)
            assert replicas - live or moving, f"nothing keeps {topic} from being deleted"
            continue
        assert context.assignments[topic] == assignments[topic].partitions
        states = await store.leader_isr_states(partitions)
        for tp in partitions:
            check_partition(context, live, tp, states.get(tp))


def check_partition(context: Any, live: Any, tp: TopicPartition, state: Any) -> None:
    assignment = context.assignment(tp)
    replicas = assignment.replicas
    moving = tp in context.partitions_being_reassigned
    if state is None:  # asked for the replicas it has, it waits for its first leader all the same
        assert moving or not is_being_reassigned(assignment)
    else:
        assert moving == is_being_reassigned(assignment)
    if moving and state is not None:
        isr = state.leader_and_isr.isr
        assert not is_complete(context, tp, assignment, isr), f"{tp} is in sync and not done"
    if state is None:
        assert not live.intersection(replicas)
        assert context.partition_state(tp) is PartitionState.NEW
        return
    known = state.leader_and_isr
    assert set(known.isr) <= set(replicas)
    in_sync = live.intersection(known.isr)
    if in_sync:
        assert known.leader in in_sync
        assert context.partition_state(tp) is PartitionState.ONLINE
        assert context.leadership[tp].leader_and_isr.leader == known.leader
    else:
        assert known.leader == -1
        assert len(known.isr) == 1
        assert context.partition_state(tp) is PartitionState.OFFLINE


def check_transitions(logs: Any) -> None:
    """Whatever changed, changed along the tables."""
    partition = {str(s): {str(p) for p in b} for s, b in PARTITION_PREDECESSORS.items()}
    replica = {str(s): {str(p) for p in b} for s, b in REPLICA_PREDECESSORS.items()}
    for entry in logs:
        if "before" in entry and "error" not in entry:
            table = replica if "replica" in entry else partition
            assert entry["before"] in table[entry["after"]], entry


@pytest.mark.mission("PSM-13", "CTX-1", "CEL-16", "CRS-1")
@example(
    happenings=[
        ("kill", 1),
        ("create", ("a", [(1, 2, 3)], 1)),
        ("reassign", ("a", (1, 2, 3), 1)),
        ("start", 1),
    ],
    slice_=1,
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(EVENTS, min_size=4, max_size=14), st.sampled_from((1, machines.SLICE)))
def test_random_events_keep_the_cluster_state_valid(
    new_cluster: NewCluster, happenings: Any, slice_: Any
) -> None:
    async def run() -> None:
        async with new_cluster() as cluster:
            await cluster.start(*BROKERS)
            History(cluster.zookeeper)
            for event, what in happenings:
                await happen(cluster, event, what)
                await check(cluster)

    with capture_logs() as logs, patch.object(machines, "SLICE", slice_):
        asyncio.run(run())
    check_transitions(logs)
