"""DescribeTopicPartitions (key 75): topics and their partitions, page by page (KIP-966)."""

from __future__ import annotations

from minikafka.core.metadata_image import MetadataImage
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.topic_names import name_problem
from minikafka.core.topic_pages import TopicPage, page
from minikafka.kernel.cluster import INTERNAL_TOPICS, NO_LEADER, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import Slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import TOPIC_OPERATIONS, Authorization
from minikafka.server.broker.apis.guards import ApiGuard, Serve, around, knowing
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota


class DescribeTopicPartitionsHandler:
    """Serves DescribeTopicPartitions (a ``TaskHandler``).

    A response has at most ``max_partitions``, which the request can lower. It creates no topics."""

    def __init__(self, cache: MetadataCache, max_partitions: int) -> None:
        self._cache = cache
        self._max_partitions = max_partitions

    async def __call__(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse:
        if _is_invalid(request):
            return DescribeTopicPartitionsResponse(
                topics=[_failed(row.name, ErrorCode.INVALID_REQUEST) for row in request.topics]
            )
        image, cursor = self._cache.image, request.cursor
        found = page(
            image.topics,
            _names(image, request),
            None if cursor is None else TopicPartition(cursor.topic_name, cursor.partition_index),
            max(1, min(self._max_partitions, request.response_partition_limit)),
        )
        response, slices = DescribeTopicPartitionsResponse(), Slices()
        async for of_topic in slices.over(found.topics):
            row = _failed(of_topic.name, _missing(of_topic.name))
            if of_topic.partitions is not None:
                row = await _described(image, of_topic, context.listener, slices)
            row.topic_authorized_operations = TOPIC_OPERATIONS
            response.topics.append(row)
        if found.cursor is not None:
            response.next_cursor = Cursor(found.cursor.topic, found.cursor.partition)
        return response


def _is_invalid(request: DescribeTopicPartitionsRequest) -> bool:
    cursor = request.cursor
    if cursor is None:
        return False
    named = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or bool(named and cursor.topic_name not in named)


def _names(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> list[str]:
    """Return the names of the requested topics from the cursor on, sorted."""
    names = {topic.name for topic in request.topics} or image.topics.keys()
    first = "" if request.cursor is None else request.cursor.topic_name
    return sorted(name for name in names if name >= first)


def _missing(name: str) -> ErrorCode:
    bad = name_problem(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failed(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error, name, is_internal=name in INTERNAL_TOPICS)


async def _described(
    image: MetadataImage, of_topic: TopicPage, listener: str, slices: Slices
) -> DescribeTopicPartitionsResponseTopic:
    """Return a topic of the image. As in Kafka a partition has no error: without a leader that has
    the client's listener, its leader is -1."""
    name = of_topic.name
    row = DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE, name, image.topic_ids.get(name, ZERO_UUID), name in INTERNAL_TOPICS
    )
    async for index in slices.over(of_topic.partitions or ()):
        state = image.topics[name][index]
        is_reachable = image.endpoint(state.leader, listener) is not None
        row.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=state.leader if is_reachable else NO_LEADER,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(state.offline_replicas),
            )
        )
    return row


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of DescribeTopicPartitions. A topic that the principal may not describe is
    refused whether it exists or not, and left out of a request for all."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: DescribeTopicPartitionsRequest,
        serve: Serve,
    ) -> DescribeTopicPartitionsResponse:
        response: DescribeTopicPartitionsResponse
        if _is_invalid(request):
            response = await serve(request)
            return response
        all_topics = not request.topics
        names = _names(broker.cache.image, request)
        allowed = await authorization.allowed(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names
        )
        refused = [name for name in names if name not in allowed]
        request.topics = [DescribedTopicName(name) for name in names if name in allowed]
        response = DescribeTopicPartitionsResponse()
        if request.topics:
            cursor = request.cursor
            if cursor is not None and cursor.topic_name not in allowed:
                request.cursor = None  # the page begins with a later topic
            response = await serve(request)
        if all_topics:  # one of them may have been deleted meanwhile
            response.topics = [row for row in response.topics if row.error_code == ErrorCode.NONE]
        described = [row.name or "" for row in response.topics]
        fields = await authorization.operations(context, AclResourceType.TOPIC, described)
        for row in response.topics:
            row.topic_authorized_operations = fields[row.name or ""]
        if not all_topics:
            end = response.next_cursor
            response.topics += [
                DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
                for name in refused
                if end is None or name < end.topic_name
            ]
        return response

    return around(respond)


DESCRIBE_TOPIC_PARTITIONS = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    handler=lambda broker: DescribeTopicPartitionsHandler(
        broker.cache, broker.config.integer("max.request.partition.size.limit")
    ),
    task=True,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=False,
)
