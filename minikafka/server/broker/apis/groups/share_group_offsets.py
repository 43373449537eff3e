"""DescribeShareGroupOffsets (key 90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92):
where the share-partitions of a group start (KIP-932)."""

from __future__ import annotations

from typing import Any, Final

from minikafka.core.group.share.offset import UNKNOWN, SharePartitionOffset
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization, denied
from minikafka.server.broker.apis.groups.feature_guards import (
    around_if_finalized,
    before_if_finalized,
)
from minikafka.server.broker.apis.guards import Admitted, Serve, TopicRows, Verdict, split
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

# ---- DescribeShareGroupOffsets


class DescribeShareGroupOffsetsHandler:
    """Serves DescribeShareGroupOffsets (a ``TaskHandler``), once share.version is in force.

    As in Kafka, any broker describes given partitions; all partitions of a group are those that its
    coordinator knows."""

    def __init__(
        self, groups: GroupCoordination, cluster: MetadataCache, features: FinalizedFeatures
    ) -> None:
        self._groups = groups
        self._cluster = cluster
        self._features = features

    async def __call__(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> DescribeShareGroupOffsetsResponse:
        groups = [await self._describe(group) for group in request.groups]
        return DescribeShareGroupOffsetsResponse(groups=groups)

    async def _describe(
        self, group: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        name = group.group_id
        if not self._features.level(SHARE_VERSION):
            refusal = ErrorCode.UNSUPPORTED_VERSION
            return DescribeShareGroupOffsetsResponseGroup(name, error_code=refusal)
        partitions = None
        if group.topics is not None:
            partitions = [
                TopicPartition(t.topic_name, n) for t in group.topics for n in t.partitions
            ]
        try:
            found = await self._groups.share_offsets.describe(name, partitions)
        except KafkaError as error:
            return DescribeShareGroupOffsetsResponseGroup(
                name, error_code=error.code, error_message=error.message
            )
        ids = self._cluster.image.topic_ids
        rows = (
            (tp.topic, _described_partition(tp.partition, offset)) for tp, offset in found.items()
        )
        topics = [
            DescribeShareGroupOffsetsResponseTopic(topic, ids.get(topic, ZERO_UUID), some)
            for topic, some in grouped(rows).items()
        ]
        return DescribeShareGroupOffsetsResponseGroup(name, topics)


def _described_partition(
    number: int, offset: SharePartitionOffset
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        number, offset.start_offset, offset.leader_epoch, offset.lag, offset.error
    )


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeShareGroupOffsetsRequest,
    serve: Serve,
) -> Any:
    """DESCRIBE on a group shows its partitions of topics that the principal may describe. The
    others are left out if all were asked for, otherwise they have an error."""
    names = [group.group_id for group in request.groups]
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.GROUP, names
    )
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused = [
        DescribeShareGroupOffsetsResponseGroup(group.group_id, error_code=denied)
        for group in request.groups
        if group.group_id not in allowed
    ]
    request.groups = [group for group in request.groups if group.group_id in allowed]
    hidden: list[list[Any]] = []
    for group in request.groups:
        topics = group.topics or ()
        shown = await _shown(authorization, context, [topic.topic_name for topic in topics])
        kept, others = await split(topics, "topic_name", shown)
        hidden.append([_refused_topic(topic.topic_name, topic.partitions) for topic in others])
        if group.topics is not None:
            group.topics = kept
    asked_for_all = [group.topics is None for group in request.groups]
    response = await serve(request)
    for group, others, is_all in zip(response.groups, hidden, asked_for_all, strict=True):
        if is_all:
            rows = [topic.topic_name for topic in group.topics]
            shown = await _shown(authorization, context, rows)
            group.topics, _ = await split(group.topics, "topic_name", shown)
        elif not group.error_code:
            group.topics = group.topics + others
    response.groups = refused + response.groups
    return response


async def _shown(
    authorization: Authorization, context: RequestContext, topics: list[str]
) -> set[str]:
    return set(
        await authorization.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics)
    )


def _refused_topic(topic: str, partitions: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        DescribeShareGroupOffsetsResponsePartition(
            number, UNKNOWN, error_code=error, error_message=MESSAGES[error]
        )
        for number in partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic, ZERO_UUID, rows)


DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    handler=lambda broker: DescribeShareGroupOffsetsHandler(
        broker.groups, broker.cache, broker.features
    ),
    task=True,
    authorization=around_if_finalized(SHARE_VERSION, _filter_description),
    quota=Quota.REQUESTS,
    changes_state=False,
)


# ---- AlterShareGroupOffsets


UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."  # Kafka's text


class AlterShareGroupOffsetsHandler:
    """Serves AlterShareGroupOffsets (a ``TaskHandler``), once share.version is in force."""

    def __init__(
        self, groups: GroupCoordination, cluster: MetadataCache, features: FinalizedFeatures
    ) -> None:
        self._groups = groups
        self._cluster = cluster
        self._features = features

    async def __call__(
        self, context: RequestContext, request: AlterShareGroupOffsetsRequest
    ) -> AlterShareGroupOffsetsResponse:
        if not self._features.level(SHARE_VERSION):
            return AlterShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION)
        offsets = {
            TopicPartition(topic.topic_name, row.partition_index): row.start_offset
            for topic in request.topics
            for row in topic.partitions
        }
        try:
            errors = await self._groups.share_offsets.alter(request.group_id, offsets)
        except KafkaError as error:
            return AlterShareGroupOffsetsResponse(0, error.code, error.message)
        ids = self._cluster.image.topic_ids
        rows = (
            (topic, _altered_partition(number, error)) for (topic, number), error in errors.items()
        )
        return AlterShareGroupOffsetsResponse(
            responses=[
                AlterShareGroupOffsetsResponseTopic(topic, ids.get(topic, ZERO_UUID), some)
                for topic, some in grouped(rows).items()
            ]
        )


def _altered_partition(number: int, error: ErrorCode) -> AlterShareGroupOffsetsResponsePartition:
    message = UNKNOWN_TOPIC if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
    return AlterShareGroupOffsetsResponsePartition(number, error, message)


_ALTERED_ROWS = TopicRows(
    AlterShareGroupOffsetsResponse,
    lambda topic, rows: AlterShareGroupOffsetsResponseTopic(topic, partitions=rows),
    lambda row, error: AlterShareGroupOffsetsResponsePartition(
        row.partition_index, error, MESSAGES[error]
    ),
    name="topic_name",
    responded="responses",
)


async def _reads_group(
    authorization: Authorization, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Verdict:
    if not authorization.is_allowed(
        context, AclOperation.READ, AclResourceType.GROUP, request.group_id
    ):
        raise denied(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Verdict.TOPICS_DECIDE


ALTER_SHARE_GROUP_OFFSETS = Api(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    handler=lambda broker: AlterShareGroupOffsetsHandler(
        broker.groups, broker.cache, broker.features
    ),
    task=True,
    authorization=before_if_finalized(
        SHARE_VERSION, _ALTERED_ROWS.gate(AclOperation.READ, _reads_group, answers_alone=False)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)


# ---- DeleteShareGroupOffsets


class DeleteShareGroupOffsetsHandler:
    """Serves DeleteShareGroupOffsets (a ``TaskHandler``), once share.version is in force."""

    def __init__(self, groups: GroupCoordination, features: FinalizedFeatures) -> None:
        self._groups = groups
        self._features = features

    async def __call__(
        self, context: RequestContext, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        if not self._features.level(SHARE_VERSION):
            return DeleteShareGroupOffsetsResponse(0, ErrorCode.UNSUPPORTED_VERSION)
        topics = list(dict.fromkeys(topic.topic_name for topic in request.topics))
        try:
            found = await self._groups.share_offsets.delete(request.group_id, topics)
        except KafkaError as error:
            return DeleteShareGroupOffsetsResponse(0, error.code, error.message)
        rows = [
            DeleteShareGroupOffsetsResponseTopic(
                topic,
                topic_id or ZERO_UUID,
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
            )
            for topic, (topic_id, error) in found.items()
        ]
        return DeleteShareGroupOffsetsResponse(responses=rows)


async def _admit_deletion(
    authorization: Authorization, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Admitted:
    """DELETE on the group, and READ on each topic, forgets what it has read."""
    if not authorization.is_allowed(
        context, AclOperation.DELETE, AclResourceType.GROUP, request.group_id
    ):
        raise denied(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.topic_name for topic in request.topics]
    allowed = await authorization.allowed(context, AclOperation.READ, AclResourceType.TOPIC, names)
    request.topics, others = await split(request.topics, "topic_name", allowed)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        DeleteShareGroupOffsetsResponseTopic(topic.topic_name, ZERO_UUID, error, MESSAGES[error])
        for topic in others
    ]

    def join(response: Any) -> Any:
        if not response.error_code:
            response.responses = refused + response.responses
        return response

    return Admitted(request, join if refused else None)


DELETE_SHARE_GROUP_OFFSETS = Api(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    handler=lambda broker: DeleteShareGroupOffsetsHandler(broker.groups, broker.features),
    task=True,
    authorization=before_if_finalized(SHARE_VERSION, _admit_deletion),
    quota=Quota.REQUESTS,
    changes_state=True,
)
