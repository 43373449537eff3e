"""Merging metadata: what is replaced, what stays, what must not go back."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.client.cluster_view import (
    ClusterView,
    PartitionView,
    TopicView,
    merge,
    partition_counts,
)
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


@dataclass
class BrokerRow:
    node_id: int
    host: str = "host"
    port: int = 9092
    rack: str | None = None


@dataclass
class PartitionRow:
    partition_index: int
    leader_id: int
    leader_epoch: int = 0
    error_code: int = 0
    replica_nodes: list[int] = field(default_factory=lambda: [1, 2])
    isr_nodes: list[int] = field(default_factory=lambda: [1])
    offline_replicas: list[int] = field(default_factory=list)


@dataclass
class TopicRow:
    name: str | None
    partitions: list[PartitionRow] = field(default_factory=list)
    error_code: int = 0
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False


def metadata_response(
    topics: list[TopicRow] | None = None,
    brokers: list[BrokerRow] | None = None,
    cluster_id: str | None = "abc",
    controller_id: int = 1,
    error_code: int = 0,
) -> Any:
    """A Metadata response."""
    some = [BrokerRow(2), BrokerRow(1)] if brokers is None else brokers
    return SimpleNamespace(
        topics=topics or [],
        brokers=some,
        cluster_id=cluster_id,
        controller_id=controller_id,
        error_code=error_code,
    )


def test_cluster_view_is_empty_before_the_first_response() -> None:
    view = ClusterView()
    assert (view.version, view.cluster_id, view.controller_id) == (0, None, -1)
    assert not view.nodes
    assert not view.topics


def test_a_response_that_failed_as_a_whole_is_not_merged() -> None:
    with pytest.raises(KafkaError) as failure:
        merge(ClusterView(), metadata_response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), ["t"])
    assert failure.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_views_without_news_are_of_plain_topics_without_errors() -> None:
    topic, partition = TopicView("t"), PartitionView(0)
    assert (topic.error, topic.is_internal) == (ErrorCode.NONE, False)
    assert (partition.error, partition.leader) == (ErrorCode.NONE, -1)


def test_first_metadata_response_fills_the_view() -> None:
    rows = [TopicRow("t", [PartitionRow(1, 2, 7), PartitionRow(0, 1), PartitionRow(2, -1)])]
    view = merge(ClusterView(), metadata_response(rows), ["t"])
    assert (view.version, view.cluster_id, view.controller_id) == (1, "abc", 1)
    assert list(view.nodes) == [1, 2]
    assert view.nodes[1].host == "host"
    assert list(view.topics["t"].partitions) == [0, 1, 2]
    assert view.topics["t"].available == [0, 1]
    assert view.leaders == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}
    found = view.partition(TopicPartition("t", 1))
    assert found is not None
    assert (found.leader_epoch, found.replicas, found.isr) == (7, (1, 2), (1,))
    assert view.partition(TopicPartition("t", 9)) is None
    assert view.partition(TopicPartition("u", 0)) is None


def test_topics_that_are_still_wanted_stay() -> None:
    view = merge(
        ClusterView(), metadata_response([TopicRow("a"), TopicRow("b"), TopicRow("c")]), []
    )
    view = merge(view, metadata_response([TopicRow("a", error_code=3)]), ["a", "b"])
    assert list(view.topics) == ["a", "b"]
    assert view.topics["a"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_that_is_no_known_broker_is_not_used() -> None:
    view = merge(ClusterView(), metadata_response([TopicRow("t", [PartitionRow(0, 9)])]), [])
    assert view.leaders == {}


@pytest.mark.mission("CFAST-4")
def test_a_lagging_broker_does_not_send_us_back() -> None:
    view = merge(ClusterView(), metadata_response([TopicRow("t", [PartitionRow(0, 2, 5)])]), ["t"])
    stale = merge(view, metadata_response([TopicRow("t", [PartitionRow(0, 1, 4)])]), ["t"])
    assert stale.leaders == {TopicPartition("t", 0): 2}
    newer = merge(stale, metadata_response([TopicRow("t", [PartitionRow(0, 1, 6)])]), ["t"])
    assert newer.leaders == {TopicPartition("t", 0): 1}
    # Old versions of the API tell no epoch: then the answer counts.
    unknown = merge(newer, metadata_response([TopicRow("t", [PartitionRow(0, 2, -1)])]), ["t"])
    assert unknown.leaders == {TopicPartition("t", 0): 2}


@pytest.mark.mission("CFAST-4")
def test_a_response_without_brokers_is_from_a_broker_that_has_just_started() -> None:
    with pytest.raises(KafkaError, match="brokers are starting"):
        merge(ClusterView(), metadata_response([], brokers=[]), ["t"])


def test_recreated_topic_accepts_a_lower_leader_epoch() -> None:
    old = TopicRow("t", [PartitionRow(0, 2, 5)], topic_id=UUID(int=1))
    new = TopicRow("t", [PartitionRow(0, 1, 0)], topic_id=UUID(int=2))
    view = merge(
        merge(ClusterView(), metadata_response([old]), ["t"]), metadata_response([new]), ["t"]
    )
    assert view.leaders == {TopicPartition("t", 0): 1}


def test_response_with_the_same_leader_epoch_replaces_the_partition() -> None:
    view = merge(ClusterView(), metadata_response([TopicRow("t", [PartitionRow(0, 2, 5)])]), ["t"])
    row = PartitionRow(0, 2, 5, isr_nodes=[1, 2])
    found = merge(view, metadata_response([TopicRow("t", [row])]), ["t"]).partition(
        TopicPartition("t", 0)
    )
    assert found is not None
    assert found.isr == (1, 2)


def test_partitions_missing_from_a_response_are_removed() -> None:
    rows = [PartitionRow(0, 1), PartitionRow(1, 1)]
    view = merge(ClusterView(), metadata_response([TopicRow("t", rows)]), ["t"])
    view = merge(view, metadata_response([TopicRow("t", rows[:1])]), ["t"])
    assert list(view.topics["t"].partitions) == [0]


def test_unknown_topic_id_is_kept_under_an_empty_name() -> None:
    view = merge(ClusterView(), metadata_response([TopicRow(None, error_code=100)]), [])
    assert view.topics[""].error is ErrorCode.UNKNOWN_TOPIC_ID


def test_partitions_are_counted_of_topics_that_are_there() -> None:
    rows = [PartitionRow(0, 1), PartitionRow(1, -1)]
    response = metadata_response(
        [TopicRow("there", rows), TopicRow("refused", rows, error_code=29)]
    )
    view = merge(ClusterView(), response, [])
    counts = partition_counts(view, ["there", "refused", "unknown"])
    assert counts == {"there": 2, "refused": 0, "unknown": 0}
