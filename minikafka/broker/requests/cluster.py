"""The cluster: Metadata, DescribeCluster, FindCoordinator (keys 3, 60, 10)."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from minikafka.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.metadata.coordinators import NOT_AVAILABLE, CoordinatorLookup, Found
from minikafka.broker.metadata.topic_rows import EncodedTopics, PlainTopics, ResponseTopics
from minikafka.broker.requests.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from minikafka.broker.requests.eager_start import begun
from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.core.metadata_image import MetadataImage, Partitions
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import INTERNAL_TOPICS, ZERO_UUID, CoordinatorType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import run_in_slices
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

NO_CONTROLLER = -1


# In this version an empty list requests all topics, from this one on topics are requested by id.
VERSION_WHOSE_EMPTY_IS_ALL = 0
FIRST_VERSION_WITH_IDS = 12
LARGE = 500  # a response of more topics and partitions consists of rows that are kept encoded


class MetadataHandler:
    """Serves Metadata. The response is sent at once, unless a missing topic is created first, or
    the topics are many."""

    def __init__(
        self,
        cache: MetadataCache,
        creation: AutoTopicCreation,
        cluster_id: str | None,
        encoded: EncodedTopics | None = None,
    ) -> None:
        """Without ``encoded`` the topics of all responses are messages that may be changed."""
        self._cache = cache
        self._creation = creation
        self._cluster_id = cluster_id
        self._encoded = encoded

    def __call__(
        self, context: RequestContext, request: MetadataRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._serve(context, request, reply), reply)

    async def _serve(self, context: RequestContext, request: MetadataRequest, reply: Reply) -> None:
        rows: ResponseTopics = PlainTopics(context.listener, context.version)
        image = self._cache.image
        if (
            self._encoded is not None
            and not request.include_topic_authorized_operations
            and _is_large(image, request)
        ):
            rows = self._encoded.rows(image, context.listener, context.version)
        topics = await run_in_slices(self._topics(context, request, rows))
        self._finish(context, request, topics, reply)

    def _topics(
        self, context: RequestContext, request: MetadataRequest, rows: ResponseTopics
    ) -> Generator[None, None, _Topics]:
        """Look up the topics of a request, all in one image; yield after each."""
        image, version = self._cache.image, context.version
        if _requests_all(request, version):
            return _Topics((yield from rows.all(image)), [])
        found: list[MetadataResponseTopic] = []
        missing: list[str] = []
        assert request.topics is not None
        if version < FIRST_VERSION_WITH_IDS and any(map(_has_id, request.topics)):
            for topic in request.topics:
                found.append(_failed(topic.name or "", ErrorCode.INVALID_REQUEST, topic.topic_id))
                yield
            return _Topics(found, [])
        ids = {topic.topic_id: None for topic in request.topics if topic.topic_id != ZERO_UUID}
        for topic_id in ids:  # then topics requested by name are ignored, as in Kafka
            name = image.topic_names.get(topic_id)
            if name is None:
                found.append(_failed(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id))
            else:
                found.append((yield from rows.one(image, name)))
            yield
        if ids:
            return _Topics(found, [])
        for name in dict.fromkeys(topic.name or "" for topic in request.topics):
            if name in image.topics:
                found.append((yield from rows.one(image, name)))
            else:
                missing.append(name)
            yield
        return _Topics(found, missing)

    def _finish(
        self, context: RequestContext, request: MetadataRequest, topics: _Topics, reply: Reply
    ) -> None:
        """Create the missing topics or refuse them, and send the response."""
        missing = topics.missing
        if missing and request.allow_auto_topic_creation and self._creation.enabled:
            self._creation.create(
                missing,
                lambda errors: self._reply(
                    context, request, topics.found + _failed_topics(errors), reply
                ),
                context.auto_creation(),
            )
            return
        unknown = [_unknown(name) for name in missing]
        self._reply(context, request, topics.found + unknown, reply)

    def _reply(
        self,
        context: RequestContext,
        request: MetadataRequest,
        topics: list[MetadataResponseTopic],
        reply: Reply,
    ) -> None:
        """Send the response. Its brokers are those in the metadata cache now, which may be newer
        than the topics."""
        response = MetadataResponse(cluster_id=self._cluster_id, topics=topics)
        for broker in self._cache.live_brokers():
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None:
                response.brokers.append(
                    MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                )
        controller = self._cache.controller_id
        response.controller_id = NO_CONTROLLER if controller is None else controller
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for topic in topics:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
        reply(response)


class _Topics(NamedTuple):
    """The topics of a response, and the names that the image does not have."""

    found: list[MetadataResponseTopic]
    missing: list[str]


def _requests_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == VERSION_WHOSE_EMPTY_IS_ALL and not request.topics)


def _is_large(image: MetadataImage, request: MetadataRequest) -> bool:
    """Return whether the response has more than ``LARGE`` topics and partitions. Stops counting
    there."""
    topics: Iterable[Partitions] = image.topics.values()
    if request.topics:
        if len(request.topics) > LARGE:
            return True
        names = (
            topic.name or image.topic_names.get(topic.topic_id, "") for topic in request.topics
        )
        topics = (image.topics.get(name, {}) for name in names)
    count = 0
    for partitions in topics:
        count += 1 + len(partitions)
        if count > LARGE:
            return True
    return False


def _has_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _failed(
    name: str | None, error: ErrorCode, topic_id: UUID = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _unknown(name: str) -> MetadataResponseTopic:
    bad = name_problem(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _failed(name, error)


def _failed_topics(errors: Mapping[str, ErrorCode]) -> list[MetadataResponseTopic]:
    return [_failed(name, error) for name, error in errors.items()]


BROKERS, CONTROLLERS = 1, 2  # endpoint types (KIP-919)
NO_KNOWN_CONTROLLER = -1


class DescribeClusterHandler:
    def __init__(self, cache: MetadataCache, cluster_id: str) -> None:
        self._cache = cache
        self._cluster_id = cluster_id

    def __call__(
        self, context: RequestContext, request: DescribeClusterRequest, reply: Reply
    ) -> None:
        if request.endpoint_type != BROKERS:
            known = request.endpoint_type == CONTROLLERS
            reply(
                DescribeClusterResponse(
                    error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                    if known
                    else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    error_message=f"endpoint type {request.endpoint_type} requested of a broker",
                )
            )
            return
        response = DescribeClusterResponse(cluster_id=self._cluster_id)
        for broker in self._cache.live_brokers():
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None:
                response.brokers.append(
                    DescribeClusterBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
                )
        controller = self._cache.controller_id
        # Name the controller only if it is in the list, where clients look up its address.
        if controller in {broker.broker_id for broker in response.brokers}:
            response.controller_id = NO_KNOWN_CONTROLLER if controller is None else controller
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        reply(response)


FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
NO_ERROR = "NONE"  # Kafka's message of a success


class FindCoordinatorHandler:
    """Serves FindCoordinator. The first request creates the internal topic, and its error
    COORDINATOR_NOT_AVAILABLE makes the client retry."""

    def __init__(self, lookup: CoordinatorLookup, creation: AutoTopicCreation) -> None:
        self._lookup = lookup
        self._creation = creation

    def __call__(
        self, context: RequestContext, request: FindCoordinatorRequest, reply: Reply
    ) -> None:
        if context.version >= FIRST_VERSION_WITH_MANY_KEYS:
            keys = request.coordinator_keys
            found_by_key = {
                key: self._find(context, request.key_type, key) for key in dict.fromkeys(keys)
            }
            coordinators = [_coordinator(key, found_by_key[key]) for key in keys]
            reply(FindCoordinatorResponse(coordinators=coordinators))
            return
        found = self._find(context, request.key_type, request.key)
        reply(
            FindCoordinatorResponse(
                error_code=found.error,
                error_message=found.message if found.error else NO_ERROR,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )

    def _find(self, context: RequestContext, key_type: int, key: str) -> Found:
        if key_type not in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            share = key_type == CoordinatorType.SHARE
            if share and context.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
                return NOT_AVAILABLE
            return Found(ErrorCode.INVALID_REQUEST)
        kind = CoordinatorType(key_type)
        missing = self._lookup.missing_topic(kind)
        if missing is not None:
            self._creation.begin([missing], context.auto_creation())
            return NOT_AVAILABLE
        return self._lookup.find(kind, key, context.listener)


def _coordinator(key: str, found: Found) -> Coordinator:
    """Return the row of a key. As in Kafka it has no message."""
    return Coordinator(key, found.node_id, found.host, found.port, found.error)
