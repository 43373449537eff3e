"""What the broker's request handlers call in the controller and the coordinators of the process.

``broker``, ``controller`` and ``coordinator`` are siblings and do not import each other.
``KafkaController``, ``GroupCoordinator`` and ``TransactionCoordinator`` satisfy these interfaces,
and the node passes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from minikafka.core.coordinator_shard import RespondError
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.consumer.heartbeat import HeartbeatFacts
from minikafka.core.group.description import FetchedOffset
from minikafka.core.group.group import RespondJoin, RespondSync
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.rebalance import SyncFacts
from minikafka.core.group.result import RespondHeartbeat, RespondOffsets, RespondShareHeartbeat
from minikafka.core.group.share.heartbeat import ShareHeartbeatFacts
from minikafka.core.group.share.offset import SharePartitionOffset
from minikafka.core.group.streams.heartbeat import StreamsHeartbeat
from minikafka.core.group.streams_groups import RespondStreams
from minikafka.core.share.state_requests import StateRequest, StateResponse
from minikafka.core.transaction.result import ProducerResult, RespondProducer
from minikafka.kernel.cluster import (
    ElectionType,
    LeaderAndIsr,
    ProducerIdAndEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import FeatureUpdate
from minikafka.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.describe_transactions import TransactionState
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.list_transactions import ListTransactionsResponse
from minikafka.protocol.messages.share_group_describe import (
    DescribedGroup as DescribedShareGroup,
)
from minikafka.protocol.messages.streams_group_describe import (
    DescribedGroup as DescribedStreamsGroup,
)


class Controller(Protocol):
    """Kafka's ``KafkaController``, as ``KafkaApis`` uses it. Every method raises ``KafkaError``
    when this broker is not the controller: STALE_CONTROLLER_EPOCH for ``controlled_shutdown``,
    NOT_CONTROLLER for the others."""

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the leaderships of ``broker_id`` to other replicas. Returns the replicated
        partitions that it still leads. A ``broker_epoch`` of -1 is not checked."""
        ...

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """Elect leaders. Returns each partition's new leader, or the error of its election."""
        ...

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        may_change_factor: bool,
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Begin the reassignment of each partition to its target replicas, or cancel its current
        reassignment (target None). Unless it ``may_change_factor``, refuse targets with another
        number of replicas. Returns each partition's error, None after a success."""
        ...

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the current reassignments of ``partitions``, or of all partitions (None)."""
        ...

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        states: Mapping[TopicPartition, LeaderAndIsr],
        knows_ineligible: bool,
    ) -> Mapping[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Write the ISRs that leader ``broker_id`` requests. Returns each partition's new state, or
        its error: the current state instead of INELIGIBLE_REPLICA, unless it ``knows_ineligible``.
        Also raises STALE_BROKER_EPOCH."""
        ...

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Allocate a block of producer ids. Also raises BROKER_ID_NOT_REGISTERED,
        STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR."""
        ...

    async def update_features(
        self, updates: Iterable[FeatureUpdate], validate_only: bool, all_or_none: bool
    ) -> Mapping[str, KafkaError | None]:
        """Update finalized features. Returns each feature's error, None after a success; if
        ``all_or_none``, no feature was updated unless all were. Also raises
        FEATURE_UPDATE_FAILED."""
        ...

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic that the controller knows by its id."""
        ...


class ShareOffsets(Protocol):
    """Where share groups read. The methods raise KafkaError for an error of the whole request."""

    async def describe(
        self, group_id: str, partitions: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, SharePartitionOffset]: ...

    async def alter(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    async def delete(
        self, group_id: str, topics: Sequence[str]
    ) -> Mapping[str, tuple[UUID | None, KafkaError | None]]: ...


class GroupCoordination(Protocol):
    """Kafka's ``GroupCoordinator``, as ``KafkaApis`` uses it.

    ``respond`` arguments are called exactly once, now or later. Methods that return a response
    raise KafkaError for an error of the whole request."""

    def join(self, group_id: str, facts: JoinFacts, respond: RespondJoin) -> None: ...

    def sync(self, group_id: str, facts: SyncFacts, respond: RespondSync) -> None: ...

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode: ...

    def consumer_heartbeat(
        self, group_id: str, facts: HeartbeatFacts, respond: RespondHeartbeat
    ) -> None: ...

    def share_heartbeat(
        self, group_id: str, facts: ShareHeartbeatFacts, respond: RespondShareHeartbeat
    ) -> None: ...

    def streams_heartbeat(self, facts: StreamsHeartbeat, respond: RespondStreams) -> None: ...

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity]
    ) -> list[MemberResponse]: ...

    def commit(self, group_id: str, facts: CommitFacts, respond: RespondOffsets) -> None: ...

    def partition_for(self, group_id: str) -> int: ...

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        require_stable: bool,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedOffset]: ...

    def fetch_all(
        self,
        group_id: str,
        require_stable: bool,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedOffset]: ...

    def delete_offsets(
        self, group_id: str, topic_partitions: Sequence[TopicPartition], respond: RespondOffsets
    ) -> None: ...

    def describe(self, group_id: str) -> DescribedGroup: ...

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup: ...

    def describe_share_group(self, group_id: str) -> DescribedShareGroup: ...

    @property
    def share_offsets(self) -> ShareOffsets: ...

    def describe_streams_group(self, group_id: str) -> DescribedStreamsGroup: ...

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]: ...

    def delete_groups(
        self, group_ids: Iterable[str], respond: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None: ...

    def partitions_deleted(self, topic_partitions: Iterable[TopicPartition]) -> None: ...

    def transaction_ended(
        self, producer_id: int, markers: Mapping[int, int], committed: bool
    ) -> None: ...


class ShareStateCoordination(Protocol):
    """Kafka's ``ShareCoordinator``, as ``KafkaApis`` uses it."""

    async def serve(self, request: StateRequest) -> StateResponse: ...

    def topics_deleted(self, topic_ids: Collection[UUID]) -> None: ...


class TransactionCoordination(Protocol):
    """Kafka's ``TransactionCoordinator``, as ``KafkaApis`` uses it.

    ``respond`` arguments are called exactly once, now or later."""

    async def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
    ) -> ProducerResult:
        """Return the producer id and epoch for a transactional id, or a new producer id without
        one. Raises KafkaError."""
        ...

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        respond: RespondError,
    ) -> None: ...

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        client_version: int,
        respond: RespondProducer,
    ) -> None: ...

    def describe(self, transactional_id: str) -> TransactionState: ...

    def list_transactions(
        self,
        states: Collection[str],
        producer_ids: Collection[int],
        longer_than_ms: int,
        pattern: str | None,
    ) -> ListTransactionsResponse: ...
