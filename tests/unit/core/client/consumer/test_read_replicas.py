"""The replica that a consumer reads from: the preferred one until it expires or goes offline."""

from __future__ import annotations

from minikafka.core.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from minikafka.core.client.consumer.read_replicas import ReadReplicas
from minikafka.kernel.cluster import TopicPartition

TP = TopicPartition("t", 0)
LEASE_MS = 1_000


def cluster(*nodes: int, offline: tuple[int, ...] = ()) -> ClusterView:
    partition = PartitionView(0, leader=1, offline_replicas=offline)
    return ClusterView(
        nodes={node: Node(node, "h", node) for node in nodes},
        topics={"t": TopicView("t", partitions={0: partition})},
        leaders={TP: 1},
    )


def test_preferred_replica_replaces_the_leader_until_it_expires() -> None:
    sources = ReadReplicas(LEASE_MS)
    assert sources.source(TP, cluster(1, 2), 0) == 1
    sources.prefer(TP, 2, 0)
    assert sources.source(TP, cluster(1, 2), LEASE_MS - 1) == 2
    assert sources.source(TP, cluster(1, 2), LEASE_MS) == 1
    assert sources.source(TP, cluster(1, 2), 0) == 1


def test_not_one_that_is_gone_or_has_lost_its_disk() -> None:
    sources = ReadReplicas(LEASE_MS)
    for view in (cluster(1), cluster(1, 2, offline=(2,))):
        sources.prefer(TP, 2, 0)
        assert sources.source(TP, view, 0) == 1
        assert sources.source(TP, cluster(1, 2), 0) == 1


def test_after_an_error_the_leader() -> None:
    sources = ReadReplicas(LEASE_MS)
    sources.prefer(TP, 2, 0)
    assert sources.clear([TP, TopicPartition("t", 1)]) == [TP]
    assert sources.clear([TP]) == []
    assert sources.source(TP, ClusterView(), 0) is None


def test_a_named_replica_of_a_topic_that_metadata_do_not_name_any_more() -> None:
    sources = ReadReplicas(LEASE_MS)
    sources.prefer(TP, 2, 0)
    assert sources.source(TP, ClusterView(nodes={2: Node(2, "h", 2)}), 0) == 2
