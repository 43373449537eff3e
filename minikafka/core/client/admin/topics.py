"""Calls about topics (create, grow, delete and describe them), and about the cluster: its id, its
brokers and its controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias
from uuid import UUID

from minikafka.core.client.calls import Call, ControllerCall, error_of, of_each, raise_for
from minikafka.core.client.cluster_view import (
    Node,
    TopicView,
    check_metadata,
    metadata_request,
    topic_view,
)
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.metadata import MetadataResponse

BROKER_DEFAULT: Final = -1
BY_NAMES: Final = 5  # the highest version of DeleteTopics with names alone: later ones have ids

# Errors of single topics that are retried. Others are final even if the table calls them retriable,
# for example UNKNOWN_TOPIC_OR_PARTITION for a topic to be deleted.
_RETRIED: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 stand for the broker's defaults.

    With ``assignments`` (broker ids by partition, the preferred leader first) the counts stay
    -1.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Iterable[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The outcome of a creation. Old brokers return only the name."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1


CreateOutcomes: TypeAlias = dict[str, CreatedTopic | KafkaError]
TopicErrors: TypeAlias = dict[str, KafkaError | None]


def create_topics(
    topics: Sequence[NewTopic], timeout_ms: int, validate_only: bool = False
) -> ControllerCall[CreateOutcomes]:
    """Build CreateTopics. The result has the outcome of each topic."""

    def read(response: CreateTopicsResponse) -> CreateOutcomes:
        found = {row.name: _created(row) for row in response.topics}
        return of_each((topic.name for topic in topics), found)

    rows = [_creatable(topic) for topic in topics]
    return ControllerCall(CreateTopicsRequest(rows, timeout_ms, validate_only), read)


def delete_topics(names: Iterable[str], timeout_ms: int) -> ControllerCall[TopicErrors]:
    """Build DeleteTopics. The result is None for a topic that is deleted or being deleted."""

    def read(response: DeleteTopicsResponse) -> TopicErrors:
        rows = response.responses
        found = {row.name or "": error_of(row.error_code, row.error_message) for row in rows}
        return of_each(wanted, found)

    wanted = list(names)
    request = DeleteTopicsRequest(topic_names=wanted, timeout_ms=timeout_ms)
    return ControllerCall(request, read, highest_version=BY_NAMES)


def create_partitions(
    counts: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]],
    timeout_ms: int,
    validate_only: bool = False,
) -> ControllerCall[TopicErrors]:
    """Build CreatePartitions. ``counts`` are the numbers of partitions afterwards.

    ``assignments`` are the replicas of the new partitions, by topic; the controller assigns the
    replicas of the other topics. The result is None for a topic that has grown.
    """

    def read(response: CreatePartitionsResponse) -> TopicErrors:
        rows = response.results
        return of_each(
            counts, {row.name: error_of(row.error_code, row.error_message) for row in rows}
        )

    def replicas(name: str) -> list[CreatePartitionsAssignment] | None:
        if name not in assignments:
            return None
        return [CreatePartitionsAssignment(list(brokers)) for brokers in assignments[name]]

    rows = [CreatePartitionsTopic(name, count, replicas(name)) for name, count in counts.items()]
    return ControllerCall(CreatePartitionsRequest(rows, timeout_ms, validate_only), read)


def describe_topics(names: Iterable[str] | None) -> Call[list[TopicView]]:
    """Build Metadata for these topics, or for all topics if None. Any broker serves it.

    The result is sorted by name. It creates no topics; the error of a topic is in its view.
    """

    def read(response: MetadataResponse) -> list[TopicView]:
        check_metadata(response)
        return sorted((topic_view(row) for row in response.topics), key=lambda topic: topic.name)

    return Call(metadata_request(names), read)


def is_final(outcome: Any) -> bool:
    """Return whether the outcome of one topic is not worth another attempt."""
    return not (isinstance(outcome, KafkaError) and outcome.code in _RETRIED)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition, list(brokers))
            for partition, brokers in sorted(topic.assignments.items())
        ],
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


def _created(row: CreatableTopicResult) -> CreatedTopic | KafkaError:
    return error_of(row.error_code, row.error_message) or CreatedTopic(
        row.name, row.topic_id, row.num_partitions, row.replication_factor
    )


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int  # -1: none
    nodes: tuple[Node, ...]


def describe_cluster() -> Call[ClusterDescription]:
    """Build DescribeCluster. Any broker from Kafka 2.8 on serves it."""

    def read(response: DescribeClusterResponse) -> ClusterDescription:
        raise_for(response.error_code, response.error_message)
        nodes = sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(nodes))

    return Call(DescribeClusterRequest(), read)


def describe_cluster_by_metadata() -> Call[ClusterDescription]:
    """Build Metadata without topics, with the same result. Any broker serves it."""

    def read(response: MetadataResponse) -> ClusterDescription:
        check_metadata(response)
        nodes = sorted(Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(nodes))

    return Call(metadata_request([]), read)
