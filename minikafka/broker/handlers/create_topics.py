"""CreateTopics (key 19), answered by the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from minikafka.broker.config_entries import ConfigEntry
from minikafka.broker.context import RequestContext
from minikafka.broker.topic_admin import TopicOutcome
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CLUSTER_METADATA_TOPIC = "__cluster_metadata"  # KRaft's own log; never a topic


class TopicCreator(Protocol):
    async def create_topics(
        self, topics: Sequence[CreatableTopic], timeout_ms: int, validate_only: bool
    ) -> dict[str, TopicOutcome]: ...


class TopicEntries(Protocol):
    def topic_entries(self, given: Mapping[str, str]) -> list[ConfigEntry]: ...


class CreateTopicsHandler:
    """A TaskHandler. One result per entry of the request, in its order."""

    def __init__(
        self, is_controller: Callable[[], bool], admin: TopicCreator, entries: TopicEntries
    ) -> None:
        self._is_controller = is_controller
        self._admin = admin
        self._entries = entries

    async def __call__(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsResponse:
        if not self._is_controller():
            results = [_failed(topic.name, ErrorCode.NOT_CONTROLLER) for topic in request.topics]
            return CreateTopicsResponse(topics=results)
        refused = _refusals(request.topics)
        outcomes = await self._admin.create_topics(
            [topic for topic in request.topics if topic.name not in refused],
            request.timeout_ms,
            request.validate_only,
        )
        return CreateTopicsResponse(
            topics=[
                _failed(topic.name, ErrorCode.INVALID_REQUEST, refused[topic.name])
                if topic.name in refused
                else self._result(topic.name, outcomes[topic.name])
                for topic in request.topics
            ]
        )

    def _result(self, name: str, outcome: TopicOutcome) -> CreatableTopicResult:
        if outcome.error is not None:
            return _failed(name, outcome.error.code, outcome.error.message)
        return CreatableTopicResult(
            name=name,
            topic_id=outcome.topic_id,
            error_message=None,
            num_partitions=outcome.partitions,
            replication_factor=outcome.replication_factor,
            configs=[
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in self._entries.topic_entries(outcome.config or {})
            ],
        )


def _refusals(topics: Sequence[CreatableTopic]) -> dict[str, str]:
    """Names that cannot even be tried, with the reason."""
    times = Counter(topic.name for topic in topics)
    refused = {name: "Found multiple entries for this topic." for name, n in times.items() if n > 1}
    if CLUSTER_METADATA_TOPIC in times:
        refused[CLUSTER_METADATA_TOPIC] = (
            f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        )
    return refused


def _failed(name: str, error: ErrorCode, message: str | None = None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message)
