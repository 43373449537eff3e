"""AlterShareGroupOffsets (key 91): let share-partitions start elsewhere (KIP-932)."""

from __future__ import annotations

from typing import Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization, denied
from minikafka.server.broker.apis.groups.feature_guards import before_if_finalized
from minikafka.server.broker.apis.guards import TopicRows, Verdict
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

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
        rows = ((topic, _partition(number, error)) for (topic, number), error in errors.items())
        return AlterShareGroupOffsetsResponse(
            responses=[
                AlterShareGroupOffsetsResponseTopic(topic, ids.get(topic, ZERO_UUID), some)
                for topic, some in grouped(rows).items()
            ]
        )


def _partition(number: int, error: ErrorCode) -> AlterShareGroupOffsetsResponsePartition:
    message = UNKNOWN_TOPIC if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
    return AlterShareGroupOffsetsResponsePartition(number, error, message)


_ALTER = TopicRows(
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
        SHARE_VERSION, _ALTER.gate(AclOperation.READ, _reads_group, answers_alone=False)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
