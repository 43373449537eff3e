"""Metadata (key 3): topics, their partitions and leaders, and the brokers."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from minikafka.core.metadata_image import MetadataImage, Partitions
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import INTERNAL_TOPICS, ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import run_in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Authorization,
)
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import ApiGuard, Serve, around, knowing
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.topic_rows import EncodedTopics, PlainTopics, ResponseTopics
from minikafka.server.broker.quotas import Quota

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
        if self._cache.suspects:
            await self._cache.suspects.settled()
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
        for broker in self._cache.suspects.listed(self._cache.image):
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


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of Metadata. A topic that the principal may not describe is refused whether
    it exists or not, and left out of a request for all. A missing topic is only created if that is
    allowed, too."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: MetadataRequest,
        serve: Serve,
    ) -> MetadataResponse:
        # The handler sets them, too, since topics are then messages that may be changed.
        wants_topics = request.include_topic_authorized_operations
        wants_cluster = request.include_cluster_authorized_operations
        request.include_cluster_authorized_operations = False
        response: MetadataResponse
        refused: list[MetadataResponseTopic] = []
        if request.topics is None or (context.version == 0 and not request.topics):
            response = await serve(request)
            names = [topic.name or "" for topic in response.topics]
            allowed = await authorization.allowed(
                context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names, log_if_denied=False
            )
            response.topics = [topic for topic in response.topics if topic.name in allowed]
        else:
            if _is_invalid(context, request.topics):
                request.include_topic_authorized_operations = False
                return await _served(serve, request)  # all topics are refused as invalid
            if any(topic.topic_id != ZERO_UUID for topic in request.topics):
                refused = await _refuse_ids(authorization, context, request, request.topics, broker)
            else:
                refused = await _refuse_names(
                    authorization, context, request, request.topics, broker
                )
            response = await _without_hidden(serve, context, request, refused)
        if wants_cluster:
            response.cluster_authorized_operations = await authorization.cluster_operations(context)
        if wants_topics:
            names = [topic.name for topic in response.topics if topic.name is not None]
            fields = await authorization.operations(context, AclResourceType.TOPIC, names)
            for topic in response.topics:
                topic.topic_authorized_operations = fields.get(
                    topic.name or "", AUTHORIZED_OPERATIONS_OMITTED
                )
        response.topics = response.topics + refused
        return response

    return around(respond)


async def _served(serve: Serve, request: MetadataRequest) -> MetadataResponse:
    response: MetadataResponse = await serve(request)
    return response


def _is_invalid(context: RequestContext, topics: Sequence[MetadataRequestTopic]) -> bool:
    return context.version < FIRST_VERSION_WITH_IDS and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in topics
    )


async def _refuse_ids(
    authorization: Authorization,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    broker: Services,
) -> list[MetadataResponseTopic]:
    """Take from the request the ids whose topics are not allowed, and all names, which count for
    nothing beside ids. Ids are no secret, names are. Return the refused rows."""
    ids = {topic.topic_id: broker.cache.topic_name(topic.topic_id) for topic in topics}
    ids.pop(ZERO_UUID, None)
    names = [name for name in ids.values() if name is not None]
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names
    )
    request.topics = [
        MetadataRequestTopic(topic_id, None)
        for topic_id, name in ids.items()
        if name is None or name in allowed
    ]
    return [
        MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
        for topic_id, name in ids.items()
        if name is not None and name not in allowed
    ]


async def _refuse_names(
    authorization: Authorization,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    broker: Services,
) -> list[MetadataResponseTopic]:
    """Take from the request the names that may not be described, and those that are missing and may
    not be created. Return the refused rows."""
    names = list(dict.fromkeys(topic.name or "" for topic in topics))
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names
    )
    refused = [
        MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        for name in names
        if name not in allowed
    ]
    kept = [name for name in names if name in allowed]
    if request.allow_auto_topic_creation and broker.topic_creation.enabled:
        missing = [name for name in kept if not broker.cache.contains_topic(name)]
        if missing and not authorization.on_cluster(
            context, AclOperation.CREATE, log_if_denied=False
        ):
            creatable = await authorization.allowed(
                context, AclOperation.CREATE, AclResourceType.TOPIC, missing
            )
            uncreatable = {name for name in missing if name not in creatable}
            kept = [name for name in kept if name not in uncreatable]
            refused += [
                MetadataResponseTopic(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS
                )
                for name in uncreatable
            ]
    if len(kept) < len(names):
        request.topics = [MetadataRequestTopic(name=name) for name in kept]
    return refused


async def _without_hidden(
    serve: Serve,
    context: RequestContext,
    request: MetadataRequest,
    refused: Sequence[MetadataResponseTopic],
) -> MetadataResponse:
    """Serve the rest of the request. In version 0 a request without topics is for all topics: a
    refused one stays in it, and its row is dropped."""
    if request.topics or context.version > 0:
        return await _served(serve, request)
    request.topics = [MetadataRequestTopic(name=refused[0].name)]
    request.allow_auto_topic_creation = False
    response = await _served(serve, request)
    response.topics = []
    return response


METADATA = Api(
    key=ApiKey.METADATA,
    handler=lambda broker: MetadataHandler(
        broker.cache, broker.topic_creation, broker.cluster_id, broker.encoded_topics
    ),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.MUTATIONS,
    changes_state=False,
)
