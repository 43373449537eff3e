"""The call that deletes records, at the leader of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from minikafka.core.client.calls import Call, error_of
from minikafka.core.client.cluster_view import TopicView, group_by_leader
from minikafka.kernel.cluster import NO_LEADER, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

# The low watermark: where the log starts now on every live replica.
DeletionOutcome: TypeAlias = int | KafkaError
DeletionOutcomes: TypeAlias = dict[TopicPartition, DeletionOutcome]


def delete_records(
    offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> Call[DeletionOutcomes]:
    """Build DeleteRecords, to the leader of these partitions. The result has all of them."""

    def read(response: DeleteRecordsResponse) -> DeletionOutcomes:
        missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes: DeletionOutcomes = dict.fromkeys(offsets, missing)
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                error = error_of(row.error_code, str(tp))
                outcomes[tp] = row.low_watermark if error is None else error
        return outcomes

    rows = ((tp.topic, DeleteRecordsPartition(tp.partition, at)) for tp, at in offsets.items())
    topics = [DeleteRecordsTopic(name, found) for name, found in grouped(rows).items()]
    return Call(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), read)


def is_final(outcome: DeletionOutcome) -> bool:
    """Return whether the outcome of one partition is not worth another attempt.

    A follower that has not deleted yet is a retriable error; a partition that does not exist is
    final.
    """
    if not isinstance(outcome, KafkaError):
        return True
    return outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not outcome.code.retriable


def by_leader(
    offsets: Mapping[TopicPartition, int], topics: Iterable[TopicView]
) -> tuple[dict[int, dict[TopicPartition, int]], dict[TopicPartition, KafkaError]]:
    """Group partitions by leader. Those without one are returned with their error."""
    views = {topic.name: topic for topic in topics}
    errors: dict[TopicPartition, KafkaError] = {}
    leaders: dict[TopicPartition, int] = {}
    for tp in sorted(offsets):
        topic = views.get(tp.topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if code is not ErrorCode.NONE:
            errors[tp] = KafkaError(code, str(tp))
        elif partition is None:
            errors[tp] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        elif partition.leader == NO_LEADER:
            errors[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
        else:
            leaders[tp] = partition.leader
    located = {tp: offset for tp, offset in offsets.items() if tp in leaders}
    return group_by_leader(located, leaders).by_leader, errors
