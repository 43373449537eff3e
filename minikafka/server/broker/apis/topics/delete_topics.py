"""DeleteTopics (key 20), which the controller serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.server.broker.admin.topics import TopicAdmin
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import ApiGuard, Serve, around, knowing
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota

STRICT_DELETE_TOPICS: Final = 5
FIRST_VERSION_WITH_DELETION_DISABLED = 3


class DeleteTopicsHandler:
    """Serves DeleteTopics (a ``TaskHandler``).

    One result per topic of the request, in its order."""

    def __init__(
        self,
        is_controller: Callable[[], bool],
        admin: TopicAdmin,
        cache: MetadataCache,
        delete_topic_enable: bool = True,
    ) -> None:
        self._is_controller = is_controller
        self._admin = admin
        self._cache = cache
        self._delete_topic_enable = delete_topic_enable

    async def __call__(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> DeleteTopicsResponse:
        requested = request.topics or [DeleteTopicState(name) for name in request.topic_names]
        refusal = refused_deletion(
            self._is_controller(), self._delete_topic_enable, context.version, requested
        )
        if refusal is not ErrorCode.NONE:
            return DeleteTopicsResponse(
                responses=[DeletableTopicResult(t.name, t.topic_id, refusal) for t in requested]
            )
        results = [self._look_up(topic) for topic in requested]
        names = [r.name for r in results if r.error_code == ErrorCode.NONE and r.name is not None]
        errors = await self._admin.delete_topics(
            list(dict.fromkeys(names)),
            request.timeout_ms,
            context.mutations(strict_since=STRICT_DELETE_TOPICS),
        )
        for result in results:
            if result.error_code == ErrorCode.NONE and result.name is not None:
                result.error_code = errors[result.name]
        return DeleteTopicsResponse(responses=results)

    def _look_up(self, topic: DeleteTopicState) -> DeletableTopicResult:
        name, error = topic.name, ErrorCode.NONE
        if topic.topic_id != ZERO_UUID:
            name = self._cache.topic_name(topic.topic_id)
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self._cache.contains_topic(name):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeletableTopicResult(name, topic.topic_id, error)


def refused_deletion(
    is_controller: bool, is_enabled: bool, version: int, requested: Sequence[DeleteTopicState]
) -> ErrorCode:
    """Return the error of a DeleteTopics request as a whole, or NONE."""
    if not is_controller:
        return ErrorCode.NOT_CONTROLLER
    if not is_enabled:
        old = version < FIRST_VERSION_WITH_DELETION_DISABLED
        return ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED
    if any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in requested):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of DeleteTopics, which applies after the errors of the whole request. Who
    deletes by id, and may not describe the topic, does not learn its name."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: DeleteTopicsRequest,
        serve: Serve,
    ) -> DeleteTopicsResponse:
        requested = request.topics or [DeleteTopicState(name) for name in request.topic_names]
        response: DeleteTopicsResponse
        is_controller = broker.is_controller()
        is_enabled = broker.config.boolean("delete.topic.enable")
        refusal = refused_deletion(is_controller, is_enabled, context.version, requested)
        if refusal is not ErrorCode.NONE:
            response = await serve(request)
            return response
        named = [(topic, _name_of(topic, broker)) for topic in requested]
        names = [name for _, name in named if name is not None]
        described = await authorization.allowed(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names
        )
        deletable = await authorization.allowed(
            context, AclOperation.DELETE, AclResourceType.TOPIC, names
        )
        refused: dict[int, DeletableTopicResult] = {}
        for place, (topic, name) in enumerate(named):
            if name is None:
                continue
            if topic.topic_id != ZERO_UUID and name not in described:
                refused[place] = DeletableTopicResult(
                    None, topic.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
            elif name not in deletable:
                refused[place] = DeletableTopicResult(
                    name, topic.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
        if not refused:
            response = await serve(request)
            return response
        kept = [topic for place, topic in enumerate(requested) if place not in refused]
        request.topics = kept
        request.topic_names = []
        served = iter((await serve(request)).responses if kept else ())
        rows = [refused.get(place) or next(served) for place in range(len(requested))]
        return DeleteTopicsResponse(responses=rows)

    return around(respond)


def _name_of(topic: DeleteTopicState, broker: Services) -> str | None:
    return topic.name if topic.topic_id == ZERO_UUID else broker.cache.topic_name(topic.topic_id)


DELETE_TOPICS = Api(
    key=ApiKey.DELETE_TOPICS,
    handler=lambda broker: DeleteTopicsHandler(
        broker.is_controller,
        broker.topics,
        broker.cache,
        broker.config.boolean("delete.topic.enable"),
    ),
    task=True,
    authorization=knowing(_guard),
    quota=Quota.MUTATIONS,
    changes_state=False,
    to_controller=True,
)
