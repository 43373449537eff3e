"""The Fetch request of a consumer, and what its response says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

# The highest version that names topics; later ones give their ids, which brokers before 2.8 lack.
FETCH_VERSION: Final = 12


class FetchLimits(NamedTuple):
    """What all Fetch requests of a consumer have in common. ``rack`` is the rack of the consumer,
    empty if it is not known."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int
    rack: str = ""


class FetchPosition(NamedTuple):
    """Where to fetch a partition from. ``current_leader_epoch`` is -1 if it is not known; else
    another leader refuses."""

    current_leader_epoch: int
    fetch_offset: int


def fetch_request(
    limits: FetchLimits, positions: Iterable[tuple[TopicPartition, FetchPosition]]
) -> FetchRequest:
    """Build a request without a fetch session."""
    topics = grouped(
        (
            tp.topic,
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=position.current_leader_epoch,
                fetch_offset=position.fetch_offset,
                partition_max_bytes=limits.max_partition_bytes,
            ),
        )
        for tp, position in positions
    )
    return FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        topics=[FetchTopic(name, partitions=rows) for name, rows in topics.items()],
        rack_id=limits.rack,
    )


def fetched_partitions(response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]]:
    """Return the rows of a response by partition."""
    return [
        (TopicPartition(topic.topic, row.partition_index), row)
        for topic in response.responses
        for row in topic.partitions
    ]


def is_fetched_again(code: ErrorCode) -> bool:
    """Whether a consumer fetches a partition again after this error in its row. Batches that the
    broker found corrupt are reported, as by Kafka's ``FetchCollector``."""
    return code.retriable and code is not ErrorCode.CORRUPT_MESSAGE
