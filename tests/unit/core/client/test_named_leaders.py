"""Leaders that responses name: only newer ones with an address count (KIP-951)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client.cluster_view import ClusterView, Node, merge
from minikafka.core.client.named_leaders import with_named_leaders
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
)

PLACES = [TopicPartition(topic, number) for topic in ("t", "u") for number in range(3)]
KNOWN = PLACES[:5]  # the view lacks the last one

leaders = st.tuples(st.integers(-1, 5), st.integers(-1, 4))
rows = st.dictionaries(st.sampled_from(PLACES), st.none() | leaders)
endpoints = st.lists(st.builds(NodeEndpoint, st.integers(1, 5), st.just("new"), st.just(9)))


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    nodes = draw(st.sets(st.integers(1, 4), min_size=1))
    topics = [
        MetadataResponseTopic(
            name=name,
            partitions=[
                MetadataResponsePartition(0, tp.partition, *draw(leaders), replica_nodes=[1, 2])
                for tp in KNOWN
                if tp.topic == name
            ],
        )
        for name in ("t", "u")
    ]
    brokers = [MetadataResponseBroker(node, "old", 9) for node in nodes]
    return merge(ClusterView(), MetadataResponse(brokers=brokers, topics=topics), ())


@pytest.mark.mission("CFAST-6")
@given(views(), rows, endpoints)
def test_each_partition_has_the_newest_leader_with_an_address(
    view: ClusterView,
    named: dict[TopicPartition, tuple[int, int] | None],
    addresses: list[NodeEndpoint],
) -> None:
    given_rows = {
        tp: PartitionProduceResponse(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=None if leader is None else LeaderIdAndEpoch(*leader),
        )
        for tp, leader in named.items()
    }
    found = with_named_leaders(view, given_rows, addresses)
    reachable = {*view.nodes, *(each.node_id for each in addresses)}
    expected, followed = {}, set()
    for tp in KNOWN:
        before = view.partition(tp)
        assert before is not None
        now = before.leader, before.leader_epoch
        leader = named.get(tp)
        if leader is not None and leader[0] in reachable and leader[1] > before.leader_epoch:
            now = leader
            followed.add(leader[0])
        expected[tp] = before._replace(leader=now[0], leader_epoch=now[1])
    assert {tp: found.partition(tp) for tp in KNOWN} == expected
    assert found.partition(PLACES[5]) is None
    moved_to = {each.node_id for each in addresses} & followed
    assert dict(found.nodes) == {**view.nodes} | {node: Node(node, "new", 9) for node in moved_to}
    assert list(found.nodes) == sorted(found.nodes)
    assert found.leaders == {
        tp: each.leader for tp, each in expected.items() if each.leader in found.nodes
    }
    assert (found is view) == (found == view)
    assert found.version == view.version  # no metadata have come
