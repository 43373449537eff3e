"""OffsetDelete (key 47): delete offsets of topics that a group no longer consumes (KIP-496)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization, denied
from minikafka.server.broker.apis.guards import TopicRows, Verdict, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


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


_DELETE = TopicRows(
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
    lambda row, error: OffsetDeleteResponsePartition(row.partition_index, error),
)


async def _deletes_group(
    authorization: Authorization,
    context: RequestContext,
    request: OffsetDeleteRequest,
) -> Verdict:
    if not authorization.is_allowed(
        context, AclOperation.DELETE, AclResourceType.GROUP, request.group_id
    ):
        raise denied(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return Verdict.TOPICS_DECIDE


OFFSET_DELETE = Api(
    key=ApiKey.OFFSET_DELETE,
    handler=lambda broker: OffsetDeleteHandler(broker.groups, broker.cache),
    task=False,
    authorization=before(_DELETE.gate(AclOperation.READ, _deletes_group, answers_alone=False)),
    quota=Quota.REQUESTS,
    changes_state=True,
)
