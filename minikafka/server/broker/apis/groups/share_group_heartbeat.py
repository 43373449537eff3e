"""ShareGroupHeartbeat (key 76): join, read with and leave a share group (KIP-932)."""

from __future__ import annotations

from typing import Final

from minikafka.core.group.share.heartbeat import ShareHeartbeatFacts
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import SHARE_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.feature_guards import before_if_finalized
from minikafka.server.broker.apis.groups.member_guard import member_gate
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

LONGEST_MEMBER_ID: Final = 36  # that of a UUID's text


class ShareGroupHeartbeatHandler:
    """Serves ShareGroupHeartbeat (an ``ImmediateHandler``), once share.version is in force."""

    def __init__(self, groups: GroupCoordination, features: FinalizedFeatures) -> None:
        self._groups = groups
        self._features = features

    def __call__(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest, reply: Reply
    ) -> None:
        if not self._features.level(SHARE_VERSION):
            reply(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return
        if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
            reply(ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        topics = request.subscribed_topic_names
        facts = ShareHeartbeatFacts(
            request.member_id,
            request.member_epoch,
            request.rack_id,
            context.client_id,
            f"/{context.client_host}",
            None if topics is None else tuple(topics),
        )
        self._groups.share_heartbeat(request.group_id, facts, reply)


SHARE_GROUP_HEARTBEAT = Api(
    key=ApiKey.SHARE_GROUP_HEARTBEAT,
    handler=lambda broker: ShareGroupHeartbeatHandler(broker.groups, broker.features),
    task=False,
    authorization=before_if_finalized(
        SHARE_VERSION,
        member_gate(
            ShareGroupHeartbeatResponse, lambda request: request.subscribed_topic_names or ()
        ),
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
