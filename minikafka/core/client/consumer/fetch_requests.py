"""The Fetch requests of a consumer, also in fetch sessions (KIP-227), and the rows of the
responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.core.client.calls import raise_for
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.fetch_session import FetchSessionHandler
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.kernel.cluster import (
    CONSUMER_REPLICA_ID,
    ZERO_UUID,
    TopicPartition,
    grouped,
)
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


_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class _BrokerSession(NamedTuple):
    """The fetch session with a broker, and the partitions of the last request by their keys."""

    handler: FetchSessionHandler[FetchPosition]
    places: dict[PartitionKey, TopicPartition]


class SessionFetches:
    """The Fetch requests of one consumer, with a fetch session for each broker.

    Only one request to a broker may be in flight: call ``build``, then ``handle_response`` with
    the response, or ``handle_error`` if there is none.
    """

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._sessions: dict[int, _BrokerSession] = {}

    def build(
        self,
        broker_id: int,
        offsets: Mapping[TopicPartition, int],
        cluster: ClusterView,
        last_version: int,
    ) -> tuple[FetchRequest, int]:
        """Build the next Fetch request to a broker, for all partitions in ``offsets``. Return it
        with its highest version, at most ``last_version``.

        The request has topic ids if the version allows it and all are known, otherwise names. That
        of an established session leaves out partitions whose position has not changed.
        """
        topics = (cluster.topics.get(name) for name in {tp.topic for tp in offsets})
        ids = {topic.name: topic.topic_id for topic in topics if topic and topic.topic_id.int}
        by_id = last_version > FETCH_VERSION and all(tp.topic in ids for tp in offsets)
        session = self._sessions.setdefault(broker_id, _BrokerSession(FetchSessionHandler(), {}))
        places, wanted = session.places, {}
        places.clear()
        for tp, offset in offsets.items():
            key: PartitionKey = (ids[tp.topic].int, tp.partition) if by_id else tp
            places[key] = tp
            wanted[key] = FetchPosition(cluster.leader_epoch(tp), offset)
        fetch = session.handler.build(wanted, by_id)
        named = ((places[key], position) for key, position in fetch.named.items())
        request = fetch_request(self._limits, named, ids)
        request.session_id, request.session_epoch = fetch.session_id, fetch.session_epoch
        request.forgotten_topics_data = [
            ForgottenTopic(topic, partitions=numbers)
            if isinstance(topic, str)
            else ForgottenTopic(topic_id=UUID(int=topic), partitions=numbers)
            for topic, numbers in grouped(fetch.forgotten).items()
        ]
        return request, last_version if by_id else min(last_version, FETCH_VERSION)

    def handle_response(
        self, broker_id: int, response: FetchResponse
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """Return the rows of a response with their partitions.

        They are empty if the broker has lost the session: the next request begins another one.
        Raises KafkaError for other errors of the whole request.
        """
        code = ErrorCode(response.error_code)
        session = self._sessions[broker_id]
        rows: list[tuple[PartitionKey, PartitionData]] = [
            ((topic.topic or topic.topic_id.int, row.partition_index), row)
            for topic in response.responses
            for row in topic.partitions
        ]
        keys = [key for key, _ in rows]
        if session.handler.handle_response(code, response.session_id, keys):
            return [(session.places[key], row) for key, row in rows]
        if code not in _SESSION_ERRORS:
            raise_for(code, f"fetch from broker {broker_id}")
        return []

    def handle_error(self, broker_id: int) -> None:
        """Note that no response came, so that the next request to the broker begins a session."""
        if broker_id in self._sessions:
            self._sessions[broker_id].handler.handle_error()
