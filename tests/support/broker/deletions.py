"""Deletion of records as a client of a ``ReplicaCluster`` asks for it."""

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
    """The answer for the partition, once it is there."""
    wanted = DeleteRecordsPartition(topic_partition.partition, offset)
    request = DeleteRecordsRequest(
        [DeleteRecordsTopic(topic_partition.topic, [wanted])], timeout_ms
    )
    answers: list[DeleteRecordsPartitionResult] = []
    node.serve(request, version, lambda r: answers.append(r.topics[0].partitions[0]))
    return answers
