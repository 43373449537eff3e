"""OffsetCommit (key 8): store the positions of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.records import NO_TIMESTAMP, CommittedOffset
from minikafka.core.group.result import RespondOffsets
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import (
    Admitted,
    ApiGuard,
    TopicRows,
    Verdict,
    before,
    knowing,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.topic_ids import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    name_topics,
)
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.zookeeper_offsets import ZookeeperOffsets

DEFAULT_RETENTION = -1

FIRST_VERSION_WITH_EPOCHS = 9


class OffsetCommitHandler:
    """Serves OffsetCommit (an ``ImmediateHandler``).

    Partitions that do not exist have UNKNOWN_TOPIC_OR_PARTITION, and those of an unknown topic id
    UNKNOWN_TOPIC_ID; the others are committed. Version 0 commits to ZooKeeper, for consumers before
    Kafka 0.9."""

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
        named, unknown = request.topics, list[OffsetCommitRequestTopic]()
        if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name_topics(request.topics, self._cluster)
            named = [topic for topic in request.topics if topic.name]
            unknown = [topic for topic in request.topics if not topic.name]
        ids = {topic.name: topic.topic_id for topic in named}
        for topic in named:
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
            reply(_commit_response(errors, ids, unknown))

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
                knows_epochs=context.version >= FIRST_VERSION_WITH_EPOCHS,
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


def _commit_response(
    errors: Mapping[TopicPartition, ErrorCode],
    ids: Mapping[str, UUID],
    unknown: Sequence[OffsetCommitRequestTopic],
) -> OffsetCommitResponse:
    """Return the response. ``ids`` are those of named topics, and ``unknown`` the topics of the
    request whose ids are unknown."""
    rows = (
        (topic, OffsetCommitResponsePartition(index, error))
        for (topic, index), error in errors.items()
    )
    topics = [
        OffsetCommitResponseTopic(name, ids[name], partitions)
        for name, partitions in grouped(rows).items()
    ]
    topics += [
        OffsetCommitResponseTopic(
            "",
            topic.topic_id,
            [
                OffsetCommitResponsePartition(row.partition_index, ErrorCode.UNKNOWN_TOPIC_ID)
                for row in topic.partitions
            ],
        )
        for topic in unknown
    ]
    return OffsetCommitResponse(topics=topics)


_COMMIT = TopicRows(
    OffsetCommitResponse,
    lambda name, rows: OffsetCommitResponseTopic(name, partitions=rows),
    lambda row, error: OffsetCommitResponsePartition(row.partition_index, error),
    ids_since=FIRST_VERSION_WITH_TOPIC_IDS,
)


async def _reads_group(
    authorization: Authorization,
    context: RequestContext,
    request: OffsetCommitRequest,
) -> Verdict | ErrorCode:
    if authorization.is_allowed(
        context, AclOperation.READ, AclResourceType.GROUP, request.group_id
    ):
        return Verdict.TOPICS_DECIDE
    return ErrorCode.GROUP_AUTHORIZATION_FAILED


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of OffsetCommit, which needs the names of topics that have ids."""
    gate = _COMMIT.gate(AclOperation.READ, _reads_group)

    async def admit(
        authorization: Authorization, context: RequestContext, request: OffsetCommitRequest
    ) -> Admitted:
        if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name_topics(request.topics, broker.cache)
        return await gate(authorization, context, request)

    return before(admit)


OFFSET_COMMIT = Api(
    key=ApiKey.OFFSET_COMMIT,
    handler=lambda broker: OffsetCommitHandler(
        broker.groups,
        broker.zookeeper_offsets,
        broker.cache,
        broker.world.clock,
        broker.config.integer("offset.metadata.max.bytes"),
    ),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=True,
)
