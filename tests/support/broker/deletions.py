"""DeleteRecords requests of a client to a broker of a ``ReplicaCluster``."""

from __future__ import annotations

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.broker.replicas import TP, Node


def delete_records(
    node: Node,
    offset: int,
    *,
    timeout_ms: int = 5_000,
    topic_partition: TopicPartition = TP,
    version: int = 2,
) -> list[DeleteRecordsPartitionResult]:
    """Send DeleteRecords for one partition. The returned list gets the partition's result."""
    partition = DeleteRecordsPartition(topic_partition.partition, offset)
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic(topic_partition.topic, [partition])], timeout_ms
    )
    results: list[DeleteRecordsPartitionResult] = []
    node.serve(request, version, lambda r: results.append(r.topics[0].partitions[0]))
    return results
