"""TxnOffsetCommit (key 28): commit positions of a group in a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.records import CommittedOffset
from minikafka.core.group.result import RespondOffsets, offset_write_error
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    ProducerIdAndEpoch,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.records.batch import NO_SEQUENCE
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import TopicRows, Verdict, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.transactions.transactional_id import may_write
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.transaction_verification import (
    Refusals,
    TransactionSupport,
    TransactionVerification,
    refusal_of_committer,
)

FIRST_VERSION_WITH_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4


class TxnOffsetCommitHandler:
    """Serves TxnOffsetCommit (an ``ImmediateHandler``).

    Partitions that do not exist have UNKNOWN_TOPIC_OR_PARTITION. The transaction must contain
    the group's partition of ``__consumer_offsets``, since the offsets are appended there: its
    coordinator verifies that first, or from version 5 on adds the partition (KIP-890)."""

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

        support = TransactionSupport.of(version, FIRST_VERSION_WITH_ABORTABLE)
        guards = self._verification.begin(producer, [(where, NO_SEQUENCE)], support)
        if guards is None:
            commit(NOT_REQUIRED)
            return
        guard = guards.get(where)
        if guard is None:
            commit(None)
            return

        def verified(refusals: Refusals) -> None:
            refusal = refusals.get(where)
            if refusal is None:
                commit(guard)
            else:
                code = offset_write_error(refusal_of_committer(refusal, support))
                respond(dict.fromkeys(offsets, code))

        self._verification.verify(
            request.transactional_id, producer, {where: guard}, support, verified
        )


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


_COMMIT = TopicRows(
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
    lambda row, error: TxnOffsetCommitResponsePartition(row.partition_index, error),
)


async def _may_commit(
    authorization: Authorization,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
) -> Verdict | ErrorCode:
    if not may_write(authorization, context, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    group = request.group_id
    if not authorization.is_allowed(context, AclOperation.READ, AclResourceType.GROUP, group):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return Verdict.TOPICS_DECIDE


TXN_OFFSET_COMMIT = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    handler=lambda broker: TxnOffsetCommitHandler(
        broker.groups, broker.cache, broker.verification, broker.world.clock
    ),
    task=False,
    authorization=before(_COMMIT.gate(AclOperation.READ, _may_commit)),
    quota=Quota.REQUESTS,
    changes_state=True,
)
