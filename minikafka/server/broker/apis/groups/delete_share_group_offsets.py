"""DeleteShareGroupOffsets (key 92): forget what a share group has read of topics (KIP-932)."""

from __future__ import annotations

from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization, denied
from minikafka.server.broker.apis.groups.feature_guards import before_if_finalized
from minikafka.server.broker.apis.guards import Admitted, split
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


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


async def _admit(
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
    authorization=before_if_finalized(SHARE_VERSION, _admit),
    quota=Quota.REQUESTS,
    changes_state=True,
)
