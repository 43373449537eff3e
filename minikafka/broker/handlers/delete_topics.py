"""DeleteTopics (key 20), answered by the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from minikafka.broker.context import RequestContext
from minikafka.broker.metadata_cache import MetadataCache
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_VERSION_WITH_DELETION_DISABLED = 3


class TopicDeleter(Protocol):
    async def delete_topics(
        self, topics: Sequence[str], timeout_ms: int
    ) -> dict[str, ErrorCode]: ...


class DeleteTopicsHandler:
    """A TaskHandler. One result per topic of the request, in its order."""

    def __init__(
        self,
        is_controller: Callable[[], bool],
        admin: TopicDeleter,
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
        asked = request.topics or [DeleteTopicState(name) for name in request.topic_names]
        refusal = self._refusal(context.version, asked)
        if refusal is not ErrorCode.NONE:
            return DeleteTopicsResponse(
                responses=[DeletableTopicResult(t.name, t.topic_id, refusal) for t in asked]
            )
        results = [self._look_up(topic) for topic in asked]
        names = [r.name for r in results if r.error_code == ErrorCode.NONE and r.name is not None]
        errors = await self._admin.delete_topics(list(dict.fromkeys(names)), request.timeout_ms)
        for result in results:
            if result.error_code == ErrorCode.NONE and result.name is not None:
                result.error_code = errors[result.name]
        return DeleteTopicsResponse(responses=results)

    def _refusal(self, version: int, asked: Sequence[DeleteTopicState]) -> ErrorCode:
        """What the request as a whole is refused with, or NONE."""
        if not self._is_controller():
            return ErrorCode.NOT_CONTROLLER
        if not self._delete_topic_enable:
            old = version < FIRST_VERSION_WITH_DELETION_DISABLED
            return ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED
        if any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in asked):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _look_up(self, topic: DeleteTopicState) -> DeletableTopicResult:
        name, error = topic.name, ErrorCode.NONE
        if topic.topic_id != ZERO_UUID:
            name = self._cache.topic_name(topic.topic_id)
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self._cache.contains_topic(name):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeletableTopicResult(name, topic.topic_id, error)
