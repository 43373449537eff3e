"""Calls about the cluster: its id, its brokers and its controller."""

from __future__ import annotations

from minikafka.core.client.calls import Call, raise_for
from minikafka.core.client.cluster_view import Node, metadata_request
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.metadata import MetadataResponse


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
        nodes = sorted(Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(nodes))

    return Call(metadata_request([]), read)
