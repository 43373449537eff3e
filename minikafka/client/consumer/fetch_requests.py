"""A consumer's Fetch requests to each broker, in fetch sessions (KIP-227), and what answers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.fetch_session import FetchSessionHandler
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class FetchLimits(NamedTuple):
    """What all requests of a consumer say. ``rack``: where it is; empty when it does not say."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int
    rack: str


class _Wanted(NamedTuple):
    current_leader_epoch: int
    fetch_offset: int


class FetchRequests:
    """One request at a time to each broker: ``build``, then ``answered`` or ``failed``."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._sessions: dict[int, FetchSessionHandler[_Wanted]] = {}  # one for each broker

    def build(
        self, broker_id: int, offsets: Mapping[TopicPartition, int], cluster: ClusterView
    ) -> FetchRequest:
        wanted: dict[PartitionKey, _Wanted] = {}
        for tp, offset in offsets.items():
            known = cluster.partition(tp)
            wanted[tp] = _Wanted(-1 if known is None else known.leader_epoch, offset)
        fetch = self._sessions.setdefault(broker_id, FetchSessionHandler()).build(wanted, False)
        limits = self._limits
        topics = grouped(
            (
                str(name),
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=want.current_leader_epoch,
                    fetch_offset=want.fetch_offset,
                    partition_max_bytes=limits.max_partition_bytes,
                ),
            )
            for (name, partition), want in fetch.named.items()
        )
        forgotten = grouped((str(name), partition) for name, partition in fetch.forgotten)
        return FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=limits.isolation_level,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=[FetchTopic(name, partitions=rows) for name, rows in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(name, partitions=numbers) for name, numbers in forgotten.items()
            ],
            rack_id=limits.rack,
        )

    def answered(
        self, broker_id: int, response: FetchResponse
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """What it says of which partitions. Nothing of any when the session was lost: the next
        request opens another. Raises KafkaError for every other error of the whole request."""
        code = ErrorCode(response.error_code)
        rows = [
            (TopicPartition(topic.topic, row.partition_index), row)
            for topic in response.responses
            for row in topic.partitions
        ]
        keys = [tp for tp, _ in rows]
        if self._sessions[broker_id].answered(code, response.session_id, keys):
            return rows
        if code is ErrorCode.NONE or code in _SESSION_ERRORS:
            return []
        raise KafkaError(code, f"fetch from broker {broker_id}")

    def failed(self, broker_id: int) -> None:
        """There was no answer."""
        self._sessions[broker_id].failed()
