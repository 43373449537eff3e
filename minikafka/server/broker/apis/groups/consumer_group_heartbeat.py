"""ConsumerGroupHeartbeat (key 68): join, reconcile and leave a consumer group (KIP-848)."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from minikafka.core.group.consumer.group import TopicFilter, all_topics
from minikafka.core.group.consumer.heartbeat import HeartbeatFacts
from minikafka.core.group.modern.partitions import read_rows
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import topic_id_text
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import GROUP_VERSION
from minikafka.kernel.ports import Entropy
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.feature_guards import before_if_finalized
from minikafka.server.broker.apis.groups.member_guard import member_gate
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_OWN_ID = 1  # before, the coordinator makes the id of a new member


class ConsumerGroupHeartbeatHandler:
    """Serves ConsumerGroupHeartbeat (an ``ImmediateHandler``), once group.version is in force."""

    def __init__(
        self,
        groups: GroupCoordination,
        entropy: Entropy,
        features: FinalizedFeatures,
        authorization: Authorization | None,
    ) -> None:
        self._groups = groups
        self._entropy = entropy
        self._features = features
        self._authorization = authorization

    def __call__(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, reply: Reply
    ) -> None:
        if not self._features.level(GROUP_VERSION):
            reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return
        member_id, owned, topics = (
            request.member_id,
            request.topic_partitions,
            request.subscribed_topic_names,
        )
        if not member_id and context.version < FIRST_VERSION_WITH_OWN_ID:
            member_id = topic_id_text(UUID(bytes=self._entropy.random_bytes(16), version=4))
        facts = HeartbeatFacts(
            member_id,
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            context.client_id,
            f"/{context.client_host}",
            None if topics is None else tuple(topics),
            request.subscribed_topic_regex,
            request.server_assignor,
            None if owned is None else read_rows(owned),
            self._describable(context),
        )
        self._groups.consumer_heartbeat(request.group_id, facts, reply)

    def _describable(self, context: RequestContext) -> TopicFilter:
        if self._authorization is None:
            return all_topics
        operation, kind = AclOperation.DESCRIBE, AclResourceType.TOPIC
        return partial(self._authorization.allowed, context, operation, kind, log_if_denied=False)


def _topics_of(request: ConsumerGroupHeartbeatRequest) -> list[str]:
    """Return the topics to which a member subscribes by name. A regular expression finds only
    topics that the member may describe."""
    return request.subscribed_topic_names or []


CONSUMER_GROUP_HEARTBEAT = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    handler=lambda broker: ConsumerGroupHeartbeatHandler(
        broker.groups, broker.world.entropy, broker.features, broker.authorization
    ),
    task=False,
    authorization=before_if_finalized(
        GROUP_VERSION, member_gate(ConsumerGroupHeartbeatResponse, _topics_of)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
