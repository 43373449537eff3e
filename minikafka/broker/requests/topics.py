"""CreateTopics, DeleteTopics, CreatePartitions (keys 19, 20, 37), which the controller serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.broker.admin.config_entries import ConfigEntries
from minikafka.broker.admin.partitions import PartitionGrowth
from minikafka.broker.admin.topics import TopicAdmin, TopicOutcome
from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.requests.routes import RequestContext
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

# The first versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_CREATE_TOPICS: Final = 6
STRICT_CREATE_PARTITIONS: Final = 3
STRICT_DELETE_TOPICS: Final = 5
CLUSTER_METADATA_TOPIC = "__cluster_metadata"  # KRaft's own log; never a topic


class CreateTopicsHandler:
    """Serves CreateTopics (a ``TaskHandler``).

    One result per entry of the request, in its order."""

    def __init__(
        self, is_controller: Callable[[], bool], admin: TopicAdmin, entries: ConfigEntries
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
            context.mutations(strict_since=STRICT_CREATE_TOPICS),
        )
        return CreateTopicsResponse(
            topics=[
                _failed(topic.name, ErrorCode.INVALID_REQUEST, refused[topic.name])
                if topic.name in refused
                else self._result(topic.name, outcomes[topic.name])
                async for topic in in_slices(request.topics)
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
    """Return the errors of the names that must not be created, by name."""
    times = Counter(topic.name for topic in topics)
    refused = {name: "Found multiple entries for this topic." for name, n in times.items() if n > 1}
    if CLUSTER_METADATA_TOPIC in times:
        refused[CLUSTER_METADATA_TOPIC] = (
            f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        )
    return refused


def _failed(name: str, error: ErrorCode, message: str | None = None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message)


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


class CreatePartitionsHandler:
    """Serves CreatePartitions (a ``TaskHandler``).

    One result per name in the request, in its order. As in Kafka, a topic that is named twice
    has one result."""

    def __init__(self, is_controller: Callable[[], bool], growth: PartitionGrowth) -> None:
        self._is_controller = is_controller
        self._growth = growth

    async def __call__(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in request.topics)
        errors: dict[str, KafkaError | None]
        if not self._is_controller():
            errors = dict.fromkeys(times, KafkaError(ErrorCode.NOT_CONTROLLER))
        else:
            once = [topic for topic in request.topics if times[topic.name] == 1]
            twice = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            errors = dict.fromkeys(times, twice)
            errors |= await self._growth.create_partitions(
                once,
                request.timeout_ms,
                request.validate_only,
                context.mutations(strict_since=STRICT_CREATE_PARTITIONS),
            )
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name)
                if error is None
                else CreatePartitionsTopicResult(name, error.code, error.message)
                for name, error in errors.items()
            ]
        )
