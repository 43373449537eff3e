"""TxnOffsetCommit (key 28): how far a group has come, if a transaction commits."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.broker.transaction_verification import (
    Refusals,
    TransactionVerification,
    refusal_of_committer,
)
from minikafka.core.group.answers import offset_write_error
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.records import CommittedOffset
from minikafka.core.group.result import InTransaction
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.records.batch import NO_SEQUENCE

FIRST_VERSION_WITH_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4


class TxnOffsetCommitHandler:
    """An ImmediateHandler. Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION. The group's
    partition of ``__consumer_offsets`` has to be in the transaction, as any that it writes to."""

    def __init__(
        self,
        groups: GroupCoordination,
        cluster: ClusterView,
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
            for asked in topic.partitions:
                topic_partition = TopicPartition(topic.name, asked.partition_index)
                errors[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self._cluster.contains(topic_partition):
                    offsets[topic_partition] = CommittedOffset(
                        asked.committed_offset,
                        asked.committed_leader_epoch,
                        asked.committed_metadata or "",
                        now_ms,
                    )
        version = context.version

        def answer(committed: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(committed)
            reply(_response({tp: _as_known_to(version, error) for tp, error in errors.items()}))

        if offsets:
            self._verified(version, request, offsets, answer)
        else:
            answer({})

    def _verified(
        self,
        version: int,
        request: TxnOffsetCommitRequest,
        offsets: Mapping[TopicPartition, CommittedOffset],
        answer: Reply,
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
            self._groups.commit(group_id, facts, answer)

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
                told = offset_write_error(refusal_of_committer(refusal, abortable))
                answer(dict.fromkeys(offsets, told))

        self._verification.ask(request.transactional_id, producer, {where: guard}, verified)


def _as_known_to(version: int, error: ErrorCode) -> ErrorCode:
    """Producers of Kafka 0.11 stumble over loading here (KAFKA-7296)."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _response(errors: Mapping[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, TxnOffsetCommitResponseTopic(name))
        topic.partitions.append(TxnOffsetCommitResponsePartition(index, error))
    return TxnOffsetCommitResponse(topics=list(topics.values()))
