"""Group offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit (keys 8, 9, 47, 28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.replication.transaction_verification import (
    Refusals,
    TransactionVerification,
    refusal_of_committer,
)
from minikafka.broker.requests.groups import GroupCoordination
from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.broker.zookeeper_offsets import ZookeeperOffsets
from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.description import NOTHING_COMMITTED, FetchedOffset
from minikafka.core.group.records import NO_TIMESTAMP, CommittedOffset
from minikafka.core.group.responses import offset_write_error
from minikafka.core.group.result import RespondOffsets
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    ProducerIdAndEpoch,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.records.batch import NO_SEQUENCE

DEFAULT_RETENTION = -1


class OffsetCommitHandler:
    """Serves OffsetCommit (an ``ImmediateHandler``).

    Partitions that do not exist have UNKNOWN_TOPIC_OR_PARTITION; the others are committed.
    Version 0 commits to ZooKeeper, for consumers before Kafka 0.9."""

    def __init__(
        self,
        groups: GroupCoordination,
        zookeeper: ZookeeperOffsets,
        cluster: MetadataCache,
        clock: Clock,
        metadata_max_bytes: int,
    ) -> None:
        self._groups = groups
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._clock = clock
        self._metadata_max_bytes = metadata_max_bytes

    def __call__(self, context: RequestContext, request: OffsetCommitRequest, reply: Reply) -> None:
        errors: dict[TopicPartition, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        now_ms = self._clock.wall_ms()
        retention_ms = request.retention_time_ms
        expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION else now_ms + retention_ms
        for topic in request.topics:
            for requested in topic.partitions:
                topic_partition = TopicPartition(topic.name, requested.partition_index)
                errors[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self._cluster.contains(topic_partition):
                    commit_ms = requested.commit_timestamp
                    offsets[topic_partition] = CommittedOffset(
                        requested.committed_offset,
                        requested.committed_leader_epoch,
                        requested.committed_metadata or "",
                        now_ms if commit_ms == NO_TIMESTAMP else commit_ms,
                        expire_ms,
                    )

        def respond(committed: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(committed)
            reply(_commit_response(errors))

        if not offsets:
            respond({})
        elif context.version == 0:
            self._commit_to_zookeeper(request.group_id, offsets, respond)
        else:
            facts = CommitFacts(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                offsets,
            )
            self._groups.commit(request.group_id, facts, respond)

    def _commit_to_zookeeper(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        respond: RespondOffsets,
    ) -> None:
        too_large = {
            topic_partition: ErrorCode.OFFSET_METADATA_TOO_LARGE
            for topic_partition, committed in offsets.items()
            if len(committed.metadata) > self._metadata_max_bytes
        }
        accepted = {tp: new.offset for tp, new in offsets.items() if tp not in too_large}
        self._zookeeper.commit(group_id, accepted, lambda errors: respond({**too_large, **errors}))


def _commit_response(errors: Mapping[TopicPartition, ErrorCode]) -> OffsetCommitResponse:
    rows = (
        (topic, OffsetCommitResponsePartition(index, error))
        for (topic, index), error in errors.items()
    )
    topics = [OffsetCommitResponseTopic(*of_topic) for of_topic in grouped(rows).items()]
    return OffsetCommitResponse(topics=topics)


FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8


class OffsetFetchHandler:
    """Serves OffsetFetch (an ``ImmediateHandler``).

    Version 0 reads the offsets from ZooKeeper.

    The response of version 1 has no error code for the group: each requested partition has it.
    (Kafka 3.9 responds without any partitions.)
    """

    def __init__(
        self, groups: GroupCoordination, zookeeper: ZookeeperOffsets, cluster: MetadataCache
    ) -> None:
        self._groups = groups
        self._zookeeper = zookeeper
        self._cluster = cluster

    def __call__(self, context: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
        if context.version == 0:
            self._from_zookeeper(request, reply)
        elif context.version >= FIRST_VERSION_WITH_MANY_GROUPS:
            stable = request.require_stable
            groups = [self._group(g.group_id, g.topics, stable) for g in request.groups]
            reply(OffsetFetchResponse(groups=groups))
        else:
            reply(self._of_one_group(context.version, request))

    def _group(
        self,
        group_id: str,
        topics: Sequence[OffsetFetchRequestTopics] | None,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup:
        try:
            found = self._fetch(group_id, topics, require_stable)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id, error_code=error.code)
        rows = (
            (
                topic,
                OffsetFetchResponsePartitions(
                    index,
                    committed.offset,
                    committed.leader_epoch,
                    committed.metadata,
                    error_code,
                ),
            )
            for (topic, index), committed, error_code in found
        )
        by_topic = [OffsetFetchResponseTopics(*of_topic) for of_topic in grouped(rows).items()]
        return OffsetFetchResponseGroup(group_id, by_topic)

    def _of_one_group(self, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        try:
            found = self._fetch(request.group_id, request.topics, request.require_stable)
        except KafkaError as error:
            if version >= FIRST_VERSION_WITH_ERROR:
                return OffsetFetchResponse(error_code=error.code)
            requested = _requested(request.topics or ())
            found = [FetchedOffset(tp, NOTHING_COMMITTED, error.code) for tp in requested]
        return _fetch_response(found)

    def _fetch(
        self,
        group_id: str,
        topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
        require_stable: bool,
    ) -> list[FetchedOffset]:
        """Return the response for one group. ``topics`` None requests all committed offsets."""
        if topics is None:
            return self._groups.fetch_all(group_id, require_stable)
        return self._groups.fetch(group_id, _requested(topics), require_stable)

    def _from_zookeeper(self, request: OffsetFetchRequest, reply: Reply) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        requested = _requested(request.topics or ())
        known = [tp for tp in requested if self._cluster.contains(tp)]

        def respond(found: Mapping[TopicPartition, int | ErrorCode | None]) -> None:
            offsets: list[FetchedOffset] = []
            for topic_partition in requested:
                value = found.get(topic_partition)
                if value is None or isinstance(value, ErrorCode):
                    error = unknown if value is None else value
                    offsets.append(FetchedOffset(topic_partition, NOTHING_COMMITTED, error))
                else:
                    offsets.append(FetchedOffset(topic_partition, CommittedOffset(value)))
            reply(_fetch_response(offsets))

        self._zookeeper.fetch(request.group_id, known, respond)


def _requested(
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics],
) -> list[TopicPartition]:
    """Return the partitions in the order of the request. As in Kafka, a partition that it names
    twice has one row in the response."""
    named = (
        TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes
    )
    return list(dict.fromkeys(named))


def _fetch_response(found: Sequence[FetchedOffset]) -> OffsetFetchResponse:
    rows = (
        (
            topic,
            OffsetFetchResponsePartition(
                index, committed.offset, committed.leader_epoch, committed.metadata, error
            ),
        )
        for (topic, index), committed, error in found
    )
    topics = [OffsetFetchResponseTopic(*of_topic) for of_topic in grouped(rows).items()]
    return OffsetFetchResponse(topics=topics)


class OffsetDeleteHandler:
    """Serves OffsetDelete (an ``ImmediateHandler``).

    Offsets of topics that a member subscribes to are kept."""

    def __init__(self, groups: GroupCoordination, cluster: MetadataCache) -> None:
        self._groups = groups
        self._cluster = cluster

    def __call__(self, context: RequestContext, request: OffsetDeleteRequest, reply: Reply) -> None:
        requested = [
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        known = [tp for tp in dict.fromkeys(requested) if self._cluster.contains(tp)]
        errors = dict.fromkeys(requested, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        def respond(deleted: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(deleted)
            rows = (
                (topic, OffsetDeleteResponsePartition(index, error))
                for (topic, index), error in errors.items()
            )
            topics = [OffsetDeleteResponseTopic(*of_topic) for of_topic in grouped(rows).items()]
            reply(OffsetDeleteResponse(topics=topics))

        self._groups.delete_offsets(request.group_id, known, respond)


FIRST_VERSION_WITH_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4


class TxnOffsetCommitHandler:
    """Serves TxnOffsetCommit (an ``ImmediateHandler``).

    Partitions that do not exist have UNKNOWN_TOPIC_OR_PARTITION. The transaction must contain
    the group's partition of ``__consumer_offsets``, since the offsets are appended there: its
    coordinator verifies that first (KIP-890)."""

    def __init__(
        self,
        groups: GroupCoordination,
        cluster: MetadataCache,
        verification: TransactionVerification,
        clock: Clock,
    ) -> None:
        self._groups = groups
        self._cluster = cluster
        self._verification = verification
        self._clock = clock

    def __call__(
        self, context: RequestContext, request: TxnOffsetCommitRequest, reply: Reply
    ) -> None:
        errors: dict[TopicPartition, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        now_ms = self._clock.wall_ms()
        for topic in request.topics:
            for requested in topic.partitions:
                topic_partition = TopicPartition(topic.name, requested.partition_index)
                errors[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self._cluster.contains(topic_partition):
                    offsets[topic_partition] = CommittedOffset(
                        requested.committed_offset,
                        requested.committed_leader_epoch,
                        requested.committed_metadata or "",
                        now_ms,
                    )
        version = context.version

        def respond(committed: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(committed)
            reply(
                _txn_commit_response(
                    {tp: _as_known_to(version, error) for tp, error in errors.items()}
                )
            )

        if offsets:
            self._verify_and_commit(version, request, offsets, respond)
        else:
            respond({})

    def _verify_and_commit(
        self,
        version: int,
        request: TxnOffsetCommitRequest,
        offsets: Mapping[TopicPartition, CommittedOffset],
        respond: RespondOffsets,
    ) -> None:
        group_id = request.group_id
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        where = TopicPartition(GROUP_METADATA_TOPIC, self._groups.partition_for(group_id))

        def commit(guard: Verification | None) -> None:
            facts = CommitFacts(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                offsets,
                InTransaction(producer.producer_id, producer.epoch, guard),
            )
            self._groups.commit(group_id, facts, respond)

        if not self._verification.enabled:
            commit(NOT_REQUIRED)
            return
        guard = self._verification.begin(producer, [(where, NO_SEQUENCE)]).get(where)
        if guard is None:
            commit(None)
            return

        def verified(refusals: Refusals) -> None:
            refusal = refusals.get(where)
            if refusal is None:
                commit(guard)
            else:
                abortable = version >= FIRST_VERSION_WITH_ABORTABLE
                code = offset_write_error(refusal_of_committer(refusal, abortable))
                respond(dict.fromkeys(offsets, code))

        self._verification.verify(request.transactional_id, producer, {where: guard}, verified)


def _as_known_to(version: int, error: ErrorCode) -> ErrorCode:
    """Replace an error that the version's clients cannot handle: producers of Kafka 0.11 fail at
    COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _txn_commit_response(errors: Mapping[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
    rows = (
        (topic, TxnOffsetCommitResponsePartition(index, error))
        for (topic, index), error in errors.items()
    )
    topics = [TxnOffsetCommitResponseTopic(*of_topic) for of_topic in grouped(rows).items()]
    return TxnOffsetCommitResponse(topics=topics)
