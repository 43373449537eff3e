"""The Fetch request of a consumer, and the rows of its response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, ZERO_UUID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

# The highest version that names topics; later ones give their ids, which brokers before 2.8 lack.
FETCH_VERSION: Final = 12
FETCH_VERSION_OF_IDS: Final = 13


class FetchLimits(NamedTuple):
    """The fields that all Fetch requests of a consumer share: times in milliseconds, sizes in
    bytes.

    ``rack`` is the rack of the consumer, empty if unknown; a leader may name a closer replica
    (KIP-392).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int
    rack: str = ""


class FetchPosition(NamedTuple):
    """The offset from which to fetch a partition, and the leader epoch that the client knows.

    A broker with another leader epoch rejects the fetch. ``current_leader_epoch`` -1 skips the
    check.
    """

    current_leader_epoch: int
    fetch_offset: int


def fetch_request(
    limits: FetchLimits,
    positions: Iterable[tuple[TopicPartition, FetchPosition]],
    topic_ids: Mapping[str, UUID] | None = None,
) -> FetchRequest:
    """Build a Fetch request; it belongs to no fetch session until the session fields are set.

    Versions up to ``FETCH_VERSION`` give the topics by name, later ones by ``topic_ids``."""
    ids = topic_ids or {}
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
        topics=[FetchTopic(name, ids.get(name, ZERO_UUID), rows) for name, rows in topics.items()],
        rack_id=limits.rack,
    )


def fetched_partitions(response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]]:
    """Return the rows of a Fetch response with their partitions."""
    return [
        (TopicPartition(topic.topic, row.partition_index), row)
        for topic in response.responses
        for row in topic.partitions
    ]


def is_fetched_again(code: ErrorCode) -> bool:
    """Whether a consumer repeats the fetch of a partition after this error in its row.

    CORRUPT_MESSAGE is retriable but not repeated: it is raised to the application, as by Kafka's
    ``FetchCollector``.
    """
    return code.retriable and code is not ErrorCode.CORRUPT_MESSAGE
