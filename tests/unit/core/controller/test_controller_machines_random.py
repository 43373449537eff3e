"""Random walks of both machines against the tables and a naive memory of leaders."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.states import (
    PARTITION_PREDECESSORS,
    REPLICA_PREDECESSORS,
    PartitionState,
    ReplicaState,
)
from minikafka.kernel.cluster import TopicPartition
from tests.support.controller.controller_states import Cluster

STEPS = st.one_of(
    st.tuples(
        st.just("partition"),
        st.sampled_from(PartitionState),
        st.sampled_from(ElectionStrategy),
        st.booleans(),
    ),
    st.tuples(st.just("replica"), st.sampled_from(ReplicaState), st.sampled_from((1, 2, 3))),
    st.tuples(st.just("brokers"), st.sets(st.sampled_from((1, 2, 3)), min_size=1)),
    st.tuples(st.just("leader"), st.sampled_from((1, 2, 3))),
)


@pytest.mark.mission("PSM-2", "PSM-13", "RSM-2")
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(STEPS, max_size=40))
def test_random_walks(new_cluster: type[Cluster], steps: Any) -> None:
    cluster = new_cluster().brokers(1, 2, 3)
    partitions = cluster.topic("t", (1, 2, 3), (2, 3, 1))
    leaders: dict[Any, Any] = {}
    ever_online = set()
    for kind, *what in steps:
        if kind == "brokers":
            cluster.brokers(*what[0])
        elif kind == "leader":
            expand(cluster, partitions[0], what[0])
        elif kind == "partition":
            target, strategy, unclean = what
            topics = {"t"} if unclean else set()
            for outcome in cluster.move(partitions, target, strategy, topics):
                for change in outcome.changes:
                    assert change.before in PARTITION_PREDECESSORS[change.after]
                    if change.after is PartitionState.ONLINE:
                        ever_online.add(change.subject)
                    if change.after is PartitionState.NON_EXISTENT:
                        ever_online.discard(change.subject)
                    assert change.after is not PartitionState.NEW or (
                        change.subject not in ever_online
                    )
        else:
            target, broker = what
            replicas = [cluster.replica(tp, broker) for tp in partitions]
            for moved in cluster.move_replicas(replicas, target):
                for step in moved.changes:
                    assert step.before in REPLICA_PREDECESSORS[step.after]
        for request in cluster.sent():
            assert request.broker_id in cluster.context.brokers
        for tp, state in cluster.znodes.items():
            known = state.leader_and_isr
            assert leaders.setdefault((tp, known.leader_epoch), known.leader) == known.leader
            assert known.isr
            assert known.leader == -1 or known.leader in known.isr


def expand(cluster: Cluster, tp: TopicPartition, broker: Any) -> None:
    """The leader takes a replica into its ISR, and the controller does not know yet."""
    from dataclasses import replace

    state = cluster.znodes.get(tp)
    if state is None or state.leader_and_isr.leader == -1:
        return
    known = state.leader_and_isr
    if broker not in known.isr:
        known = replace(known, isr=(*known.isr, broker), zk_version=known.zk_version + 1)
        cluster.znodes[tp] = replace(state, leader_and_isr=known)
