"""The ListOffsets call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minikafka.core.client.calls import Call, error_of
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.offsets import OffsetAndTimestamp
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, NO_EPOCH, TopicPartition, grouped
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


class ListedOffsets(NamedTuple):
    """The result of a ListOffsets call: offsets by partition, and the errors of other
    partitions."""

    found: dict[TopicPartition, OffsetAndTimestamp]
    errors: list[KafkaError]


def list_offsets(
    timestamps: Mapping[TopicPartition, int], view: ClusterView, isolation_level: int
) -> Call[ListedOffsets]:
    """Build a ListOffsets call to one leader: the first offset at or after each timestamp.

    Timestamps are milliseconds since 1970, or EARLIEST, LATEST or MAX_TIMESTAMP. The request has
    the leader epochs of ``view``, so that a broker with another epoch rejects it.
    """

    def read(response: ListOffsetsResponse) -> ListedOffsets:
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        errors: list[KafkaError] = []
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                error = error_of(row.error_code, str(tp))
                if error is None:
                    found[tp] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
                else:
                    errors.append(error)
        return ListedOffsets(found, errors)

    def epoch(tp: TopicPartition) -> int:
        known = view.partition(tp)
        return NO_EPOCH if known is None else known.leader_epoch

    topics = grouped(
        (tp.topic, ListOffsetsPartition(tp.partition, epoch(tp), timestamp))
        for tp, timestamp in timestamps.items()
    )
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name, rows) for name, rows in topics.items()],
    )
    return Call(request, read)
