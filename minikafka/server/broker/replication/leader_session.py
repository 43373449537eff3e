"""A follower's fetch session with its leader: builds each Fetch and reads each response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client.fetch_session import FetchSessionHandler, NextFetch
from minikafka.core.replication.fetch_session import PartitionKey
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import UNDEFINED_EPOCH
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
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
from minikafka.server.storage.directories.log_starts import LogStarts

FETCH_VERSION_BY_NAME = 12  # the last one without topic ids
FETCH_VERSION_REPLICA_STATE = 15  # the first one with the follower's broker epoch (KIP-903)
# The leader has forgotten the session or counts its epochs differently; a full Fetch repairs it.
SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
# A leader refuses a Fetch of more than 50,000 topics and partitions (``messages/fetch``).
NAMED_AT_ONCE: Final = 20_000
PartitionResponses: TypeAlias = list[tuple[TopicPartition, PartitionData]]


@dataclass(frozen=True)
class ReplicaFetcherConfig:
    """Kafka's ``replica.fetch.*``, ``replica.socket.timeout.ms`` and ``num.replica.fetchers``."""

    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1024 * 1024
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000
    num_replica_fetchers: int = 1
    inter_broker_protocol: InterBrokerProtocol = LATEST


class _PartitionRequest(NamedTuple):
    """The fields of one partition in a Fetch, in the order of ``FetchPartition``. Within a session
    they are sent when they change."""

    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderSession:
    """The fetch session (KIP-227) of one follower with one leader.

    There is one request at a time: call ``request``, then ``accept`` or ``failed``.

    Most of thousands of partitions repeat their last request. A request looks at those that have
    ``changed`` since the last one, and names them unless their fetch state is the same object as
    before. Of more than ``NAMED_AT_ONCE`` it names the first ones, and does not wait at the leader;
    the next requests of the session name the others. The log start in a request is not part of that
    state: ``log_start_offset`` returns it for a partition. As long as none of ``log_starts`` has
    moved, no log start has to be looked up."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        log_start_offset: Callable[[TopicPartition], int],
        log_starts: LogStarts,
        config: ReplicaFetcherConfig,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._log_start_offset = log_start_offset
        self._log_starts = log_starts
        self._config = config
        self._fetch_version = config.inter_broker_protocol.fetch_version
        self._truncates_on_fetch = config.inter_broker_protocol.truncates_on_fetch
        self._handler: FetchSessionHandler[_PartitionRequest] = FetchSessionHandler()
        # What the session holds: under which key, built from which state.
        self._sent: dict[TopicPartition, tuple[PartitionKey, PartitionFetchState]] = {}
        self._unnamed: dict[TopicPartition, None] = {}  # changed, and left to the next request
        self._moves = 0  # of log starts, at the last request
        self._by_id = False
        # The names and ids of topics by the first part of their keys.
        self._topics: dict[str | int, tuple[str, UUID | None]] = {}

    @property
    def id(self) -> int:
        """The session id of the last request."""
        return self._handler.session_id

    @property
    def requested(self) -> list[TopicPartition]:
        """The partitions of the last request."""
        return list(self._sent)

    def requested_state(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        """Return the fetch state from which the last request was built for a partition."""
        sent = self._sent.get(topic_partition)
        return None if sent is None else sent[1]

    def request(
        self, states: Mapping[TopicPartition, PartitionFetchState], max_wait_ms: int
    ) -> tuple[FetchRequest, int]:
        """Return the Fetch request for all partitions in ``states``, and its version."""
        return self.request_changed(states, dict.fromkeys(chain(states, self._sent)), max_wait_ms)

    def request_changed(
        self,
        states: Mapping[TopicPartition, PartitionFetchState],
        changed: Iterable[TopicPartition],
        max_wait_ms: int,
    ) -> tuple[FetchRequest, int]:
        """Return the next request and its number of partitions, looking only at ``changed``. All
        other partitions have the states that they had in the last request, or are in neither."""
        fetch = self._next(states, changed)
        config = self._config
        request = FetchRequest(
            max_wait_ms=0 if self._unnamed else max_wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=self._named(fetch),
            forgotten_topics_data=self._forgotten(fetch),
        )
        version = self._fetch_version
        if not self._by_id:
            version = min(version, FETCH_VERSION_BY_NAME)
        if version >= FETCH_VERSION_REPLICA_STATE:
            request.replica_state = ReplicaState(self._broker_id, self._broker_epoch())
        else:
            request.replica_id = self._broker_id
        return request, version

    def _next(
        self,
        states: Mapping[TopicPartition, PartitionFetchState],
        looked_at: Iterable[TopicPartition],
    ) -> NextFetch[_PartitionRequest]:
        sent, moves = self._sent, self._log_starts.moves
        changed: dict[TopicPartition, PartitionFetchState] = {}
        gone = []
        for topic_partition in dict.fromkeys(chain(self._unnamed, looked_at)):
            state = states.get(topic_partition)
            if state is None:
                if topic_partition in sent:
                    gone.append(topic_partition)
            elif self.requested_state(topic_partition) is not state:
                changed[topic_partition] = state
        by_id = self._by_id
        if changed or gone:
            others = changed if by_id else states  # the unchanged ones have ids
            by_id = self._fetch_version > FETCH_VERSION_BY_NAME and all(
                state.topic_id is not None for state in others.values()
            )
        if self._handler.names_all or by_id != self._by_id:
            sent.clear()
            self._topics.clear()
            self._by_id, self._moves = by_id, moves
            # Those left before come first: the leader may have no slot for the session.
            left = {tp: states[tp] for tp in self._unnamed if tp in states}
            first = self._first_of({**left, **states} if left else states)
            return self._handler.build(self._partition_requests(first)[0], by_id)
        named = self._first_of(changed)
        if not self._unnamed and moves != self._moves:
            named, self._moves = states, moves
        forgotten = [sent.pop(tp)[0] for tp in gone]
        requests, replaced = self._partition_requests(named)
        unsent = sum(topic_partition not in sent for topic_partition in self._unnamed)
        assert len(sent) + unsent == len(states), "a change of a partition was not reported"
        return self._handler.build_on(requests, forgotten + replaced)

    def _first_of(
        self, states: Mapping[TopicPartition, PartitionFetchState]
    ) -> Mapping[TopicPartition, PartitionFetchState]:
        """Return what the next request names of ``states``; leave the rest to the one after it."""
        if len(states) <= NAMED_AT_ONCE:
            self._unnamed = {}
            return states
        self._unnamed = dict.fromkeys(islice(states, NAMED_AT_ONCE, None))
        return dict(islice(states.items(), NAMED_AT_ONCE))

    def _key(self, topic_partition: TopicPartition, state: PartitionFetchState) -> PartitionKey:
        name, partition = topic_partition
        if self._by_id and state.topic_id is not None:
            return state.topic_id.int, partition
        return name, partition

    def _partition_requests(
        self, states: Mapping[TopicPartition, PartitionFetchState]
    ) -> tuple[dict[PartitionKey, _PartitionRequest], list[PartitionKey]]:
        """Return the requests of these partitions by session key, and remember them as sent. Also
        return the keys that they replace: of topics deleted and created again by the same name."""
        requests: dict[PartitionKey, _PartitionRequest] = {}
        replaced: list[PartitionKey] = []
        for topic_partition, state in states.items():
            key = self._key(topic_partition, state)
            before = self._sent.get(topic_partition)
            if before is not None and before[0] != key:
                replaced.append(before[0])
            self._topics[key[0]] = topic_partition.topic, state.topic_id
            self._sent[topic_partition] = key, state
            requests[key] = self._partition_request(topic_partition, state)
        return requests, replaced

    def _partition_request(
        self, topic_partition: TopicPartition, state: PartitionFetchState
    ) -> _PartitionRequest:
        epoch = state.last_fetched_epoch if self._truncates_on_fetch else None
        return _PartitionRequest(
            state.leader_epoch,
            state.fetch_offset,
            -1 if epoch is None else epoch,
            self._log_start_offset(topic_partition),
        )

    def offset_request(
        self, topic_partition: TopicPartition, leader_epoch: int, timestamp: int
    ) -> ListOffsetsRequest:
        """Return a ListOffsets request for the start or end of the leader's log."""
        name, partition = topic_partition
        partition_request = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        topics = [ListOffsetsTopic(name=name, partitions=[partition_request])]
        return ListOffsetsRequest(replica_id=self._broker_id, topics=topics)

    def epoch_request(
        self, states: Mapping[TopicPartition, PartitionFetchState]
    ) -> OffsetForLeaderEpochRequest:
        """Return an OffsetForLeaderEpoch request for the last epoch of each log."""
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
            for (topic, partition), state in states.items()
        )
        topics = [OffsetForLeaderTopic(*of_topic) for of_topic in grouped(rows).items()]
        return OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=topics)

    def _named(self, fetch: NextFetch[_PartitionRequest]) -> list[FetchTopic]:
        max_bytes = self._config.replica_fetch_max_bytes
        topics: dict[str | int, FetchTopic] = {}
        for (key, partition), want in fetch.named.items():
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchTopic(*self._name_and_id(key))
            topic.partitions.append(FetchPartition(partition, *want, max_bytes))
        return list(topics.values())

    def _forgotten(self, fetch: NextFetch[_PartitionRequest]) -> list[ForgottenTopic]:
        return [
            ForgottenTopic(*self._name_and_id(key), partitions)
            for key, partitions in grouped(fetch.forgotten).items()
        ]

    def _name_and_id(self, key: str | int) -> tuple[str, UUID]:
        name, topic_id = self._topics[key]
        return (name, ZERO_UUID) if isinstance(key, str) else ("", topic_id or ZERO_UUID)

    def accept(self, error: ErrorCode, response: FetchResponse) -> PartitionResponses | None:
        """Return the response of each partition. None if the response does not match the session:
        then the next request is a full one."""
        keys: list[PartitionKey] = []
        found: PartitionResponses = []
        for topic in response.responses:
            key = topic.topic_id.int if self._by_id else topic.topic
            name, _ = self._topics.get(key, (topic.topic, None))
            for data in topic.partitions:
                keys.append((key, data.partition_index))
                found.append((TopicPartition(name, data.partition_index), data))
        return found if self._handler.handle_response(error, response.session_id, keys) else None

    def failed(self) -> None:
        """Note that the request got no response: the next request is a full one."""
        self._handler.handle_error()
