"""What a follower asks its leader in one Fetch, and what an answer says: by a fetch session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client.fetch_session import FetchSessionHandler, NextFetch
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

FETCH_VERSION = 16  # with topic ids
FETCH_VERSION_BY_NAME = 12  # the last one without, for topics that have no id
# The leader has lost the session, or lost count in it: a full request puts that right at once.
SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
# What was said of each partition.
Answers: TypeAlias = list[tuple[TopicPartition, PartitionData]]


@dataclass(frozen=True, slots=True)
class ReplicaFetcherConfig:
    """Kafka's ``replica.fetch.*``, ``replica.socket.timeout.ms`` and ``num.replica.fetchers``."""

    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1024 * 1024
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000
    num_replica_fetchers: int = 1


class _Wanted(NamedTuple):
    """What a request says of a partition; said again only when it is not the same any more."""

    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderSession:
    """One request after the other: ``request``, then ``answered`` or ``failed``.

    ``log_start_offset`` is that of a follower's log."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        log_start_offset: Callable[[TopicPartition], int],
        config: ReplicaFetcherConfig,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._log_start_offset = log_start_offset
        self._config = config
        self._handler: FetchSessionHandler[_Wanted] = FetchSessionHandler()
        self._names: dict[UUID, str] = {}

    def request(
        self, asked: Mapping[TopicPartition, PartitionFetchState], max_wait_ms: int
    ) -> tuple[FetchRequest, int]:
        """The request for all of ``asked``, and its version."""
        by_id = all(state.topic_id is not None for state in asked.values())
        self._names.clear()
        wanted: dict[PartitionKey, _Wanted] = {}
        for topic_partition, state in asked.items():
            name, partition = topic_partition
            topic: str | UUID = name
            if by_id and state.topic_id is not None:
                topic = state.topic_id
                self._names[topic] = name
            epoch = state.last_fetched_epoch
            wanted[topic, partition] = _Wanted(
                state.leader_epoch,
                state.fetch_offset,
                -1 if epoch is None else epoch,
                self._log_start_offset(topic_partition),
            )
        config = self._config
        fetch = self._handler.build(wanted, by_id)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=self._topics(fetch),
            forgotten_topics_data=self._forgotten(fetch),
        )
        if by_id:
            request.replica_state = ReplicaState(self._broker_id, self._broker_epoch())
            return request, FETCH_VERSION
        request.replica_id = self._broker_id
        return request, FETCH_VERSION_BY_NAME

    def offset_request(
        self, topic_partition: TopicPartition, leader_epoch: int, timestamp: int
    ) -> ListOffsetsRequest:
        """Where the leader's log starts or ends; of no session."""
        name, partition = topic_partition
        question = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        topics = [ListOffsetsTopic(name=name, partitions=[question])]
        return ListOffsetsRequest(replica_id=self._broker_id, topics=topics)

    def _topics(self, fetch: NextFetch[_Wanted]) -> list[FetchTopic]:
        topics: dict[str | UUID, FetchTopic] = {}
        for (key, partition), want in fetch.named.items():
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchTopic(*_name_and_id(key))
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=want.current_leader_epoch,
                    fetch_offset=want.fetch_offset,
                    last_fetched_epoch=want.last_fetched_epoch,
                    log_start_offset=want.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten(self, fetch: NextFetch[_Wanted]) -> list[ForgottenTopic]:
        topics: dict[str | UUID, ForgottenTopic] = {}
        for key, partition in fetch.forgotten:
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = ForgottenTopic(*_name_and_id(key))
            topic.partitions.append(partition)
        return list(topics.values())

    def answered(self, error: ErrorCode, response: FetchResponse) -> Answers | None:
        """What the answer says of each partition; None when it cannot be used. The next request
        names everything then."""
        found = list(self._partitions(response))
        keys = [key for key, _, _ in found]
        if not self._handler.answered(error, response.session_id, keys):
            return None
        return [(topic_partition, data) for _, topic_partition, data in found]

    def _partitions(
        self, response: FetchResponse
    ) -> Iterator[tuple[PartitionKey, TopicPartition, PartitionData]]:
        for topic in response.responses:
            key: str | UUID = topic.topic_id if self._names else topic.topic
            name = self._names.get(topic.topic_id, topic.topic)
            for data in topic.partitions:
                index = data.partition_index
                yield (key, index), TopicPartition(name, index), data

    def failed(self) -> None:
        """There was no answer."""
        self._handler.failed()


def _name_and_id(key: str | UUID) -> tuple[str, UUID]:
    return (key, ZERO_UUID) if isinstance(key, str) else ("", key)
