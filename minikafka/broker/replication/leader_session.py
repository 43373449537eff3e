"""What a follower asks its leader in one Fetch, and what an answer says: by a fetch session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client.fetch_session import FetchSessionHandler, NextFetch
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import UNDEFINED_EPOCH
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.grouping import grouped
from minikafka.protocol.api_keys import ApiKey
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
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.releases import Release

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
    release: Release = Release.KAFKA_3_9

    @property
    def truncates_on_fetch(self) -> bool:
        """Whether the leader compares epochs in every Fetch (KIP-595). If not, a new follower asks
        by OffsetForLeaderEpoch before its first Fetch (KIP-101)."""
        return self.release.at_most(ApiKey.FETCH, FETCH_VERSION) >= FETCH_VERSION_BY_NAME


class _Wanted(NamedTuple):
    """What a request says of a partition; said again only when it is not the same any more."""

    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderSession:
    """One request after the other: ``request``, then ``answered`` or ``failed``.

    A state that was asked with before, the very object, is not looked at again: most of thousands
    are so. Beside it a request says where the follower's log starts: ``log_start_offset`` tells,
    and ``log_start_moves`` how often that of any log has moved."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        log_start_offset: Callable[[TopicPartition], int],
        log_start_moves: Callable[[], int],
        config: ReplicaFetcherConfig,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._log_start_offset = log_start_offset
        self._log_start_moves = log_start_moves
        self._config = config
        self._handler: FetchSessionHandler[_Wanted] = FetchSessionHandler()
        self._told: dict[TopicPartition, tuple[PartitionKey, PartitionFetchState]] = {}
        self._moves = 0  # those that the session knows of
        self._by_id = False
        self._names: dict[UUID, str] = {}

    def request(
        self, asked: Mapping[TopicPartition, PartitionFetchState], max_wait_ms: int
    ) -> tuple[FetchRequest, int]:
        """The request for all of ``asked``, and its version."""
        fetch = self._next(asked)
        config = self._config
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=self._topics(fetch),
            forgotten_topics_data=self._forgotten(fetch),
        )
        if self._by_id:
            request.replica_state = ReplicaState(self._broker_id, self._broker_epoch())
            return request, FETCH_VERSION
        request.replica_id = self._broker_id
        return request, config.release.at_most(ApiKey.FETCH, FETCH_VERSION_BY_NAME)

    def _next(self, asked: Mapping[TopicPartition, PartitionFetchState]) -> NextFetch[_Wanted]:
        told, moves = self._told, self._log_start_moves()
        known = None, None
        changed = {tp: state for tp, state in asked.items() if told.get(tp, known)[1] is not state}
        gone = self._gone(asked, changed)
        by_id = self._by_id
        if changed or gone:
            by_id = self._config.truncates_on_fetch and all(
                state.topic_id is not None for state in asked.values()
            )
        if self._handler.names_all or by_id != self._by_id:
            told.clear()
            self._names.clear()
            self._by_id, self._moves = by_id, moves
            return self._handler.build(self._wanted(asked, []), by_id)
        forgotten = [told.pop(tp)[0] for tp in gone]
        wanted = self._wanted(changed if moves == self._moves else asked, forgotten)
        self._moves = moves
        return self._handler.build_on(wanted, forgotten)

    def _gone(
        self,
        asked: Mapping[TopicPartition, PartitionFetchState],
        changed: Mapping[TopicPartition, PartitionFetchState],
    ) -> list[TopicPartition]:
        """What the session has and is not asked for now."""
        told = self._told
        new = sum(tp not in told for tp in changed)
        if len(told) + new == len(asked):
            return []
        return [tp for tp in told if tp not in asked]

    def _wanted(
        self,
        asked: Mapping[TopicPartition, PartitionFetchState],
        forgotten: list[PartitionKey],
    ) -> dict[PartitionKey, _Wanted]:
        """What a request says of these; ``forgotten`` gets the partitions of topics that there is
        another of now, by the same name."""
        wanted: dict[PartitionKey, _Wanted] = {}
        for topic_partition, state in asked.items():
            name, partition = topic_partition
            topic: str | UUID = name
            if self._by_id and state.topic_id is not None:
                topic = state.topic_id
                self._names[topic] = name
            key = topic, partition
            before = self._told.get(topic_partition)
            if before is not None and before[0] != key:
                forgotten.append(before[0])
            self._told[topic_partition] = key, state
            epoch = state.last_fetched_epoch if self._config.truncates_on_fetch else None
            wanted[key] = _Wanted(
                state.leader_epoch,
                state.fetch_offset,
                -1 if epoch is None else epoch,
                self._log_start_offset(topic_partition),
            )
        return wanted

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

    def epoch_request(
        self, asked: Mapping[TopicPartition, PartitionFetchState]
    ) -> OffsetForLeaderEpochRequest:
        """Where the last epoch of each log ends at the leader; of no session."""
        rows = (
            (
                topic,
                OffsetForLeaderPartition(
                    partition=partition,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=(
                        UNDEFINED_EPOCH
                        if state.last_fetched_epoch is None
                        else state.last_fetched_epoch
                    ),
                ),
            )
            for (topic, partition), state in asked.items()
        )
        topics = [OffsetForLeaderTopic(*of_topic) for of_topic in grouped(rows).items()]
        return OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=topics)

    def _topics(self, fetch: NextFetch[_Wanted]) -> list[FetchTopic]:
        rows = (
            (
                key,
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=want.current_leader_epoch,
                    fetch_offset=want.fetch_offset,
                    last_fetched_epoch=want.last_fetched_epoch,
                    log_start_offset=want.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                ),
            )
            for (key, partition), want in fetch.named.items()
        )
        return [
            FetchTopic(*_name_and_id(key), partitions) for key, partitions in grouped(rows).items()
        ]

    def _forgotten(self, fetch: NextFetch[_Wanted]) -> list[ForgottenTopic]:
        return [
            ForgottenTopic(*_name_and_id(key), partitions)
            for key, partitions in grouped(fetch.forgotten).items()
        ]

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
            key: str | UUID = topic.topic_id if self._by_id else topic.topic
            name = self._names.get(topic.topic_id, topic.topic)
            for data in topic.partitions:
                index = data.partition_index
                yield (key, index), TopicPartition(name, index), data

    def failed(self) -> None:
        """There was no answer."""
        self._handler.failed()


def _name_and_id(key: str | UUID) -> tuple[str, UUID]:
    return (key, ZERO_UUID) if isinstance(key, str) else ("", key)
