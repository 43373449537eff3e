"""The Fetch requests of consumers, with and without fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.core.client.calls import numbers_by_topic, raise_for, rows_by_topic
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.fetch_session import FetchSessionHandler
from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    NO_SESSION,
    PartitionKey,
)
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

# The highest version that names topics; later ones give their ids, which brokers before 2.8 lack.
FETCH_VERSION: Final = 12

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


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
    limits: FetchLimits,
    positions: Iterable[tuple[TopicPartition, FetchPosition]],
    session_id: int = NO_SESSION,
    session_epoch: int = FINAL_EPOCH,
    forgotten: Iterable[TopicPartition] = (),
) -> FetchRequest:
    """Build a request, by default one without a session."""
    topics = rows_by_topic(
        (
            tp,
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
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(name, partitions=rows) for name, rows in topics.items()],
        forgotten_topics_data=[
            ForgottenTopic(name, partitions=numbers)
            for name, numbers in numbers_by_topic(forgotten).items()
        ],
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


class FetchRequests:
    """The requests of one consumer to each broker, one at a time: ``build``, then ``answered`` or
    ``failed``."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._sessions: dict[int, FetchSessionHandler[FetchPosition]] = {}  # one for each broker

    def build(
        self, broker_id: int, offsets: Mapping[TopicPartition, int], cluster: ClusterView
    ) -> FetchRequest:
        """Build the next request to a broker for all these partitions."""
        wanted: dict[PartitionKey, FetchPosition] = {}
        for tp, offset in offsets.items():
            known = cluster.partition(tp)
            epoch = NO_EPOCH if known is None else known.leader_epoch
            wanted[tp] = FetchPosition(epoch, offset)
        fetch = self._sessions.setdefault(broker_id, FetchSessionHandler()).build(wanted, False)
        return fetch_request(
            self._limits,
            ((TopicPartition(str(name), n), at) for (name, n), at in fetch.named.items()),
            fetch.session_id,
            fetch.session_epoch,
            (TopicPartition(str(name), number) for name, number in fetch.forgotten),
        )

    def answered(
        self, broker_id: int, response: FetchResponse
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """Return the rows of a response; none when the session was lost: the next request begins
        another. Raises KafkaError for other errors of the whole request."""
        code = ErrorCode(response.error_code)
        rows = fetched_partitions(response)
        keys = [tp for tp, _ in rows]
        if self._sessions[broker_id].answered(code, response.session_id, keys):
            return rows
        if code not in _SESSION_ERRORS:
            raise_for(code, f"fetch from broker {broker_id}")
        return []

    def failed(self, broker_id: int) -> None:
        """Note that a request got no response."""
        self._sessions[broker_id].failed()
