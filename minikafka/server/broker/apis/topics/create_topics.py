"""CreateTopics (key 19), which the controller serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.topics import TopicAdmin, TopicOutcome
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import ApiGuard, Serve, around, knowing
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import Quota

# The first versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_CREATE_TOPICS: Final = 6
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


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of CreateTopics. The configurations of a new topic, its size and its id are
    only shown to whom may describe them."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: CreateTopicsRequest,
        serve: Serve,
    ) -> CreateTopicsResponse:
        if not broker.is_controller():
            response: CreateTopicsResponse = await serve(request)
            return response
        requested = request.topics
        times = Counter(topic.name for topic in requested)
        names = [name for name in times if name != CLUSTER_METADATA_TOPIC]
        allowed = set(names)
        if not authorization.on_cluster(context, AclOperation.CREATE, log_if_denied=False):
            allowed = await authorization.allowed(
                context, AclOperation.CREATE, AclResourceType.TOPIC, names
            )
        described = await authorization.allowed(
            context,
            AclOperation.DESCRIBE_CONFIGS,
            AclResourceType.TOPIC,
            names,
            log_if_denied=False,
        )

        def is_refused(name: str) -> bool:
            """Names that are prohibited or occur twice are refused by the handler."""
            return name != CLUSTER_METADATA_TOPIC and times[name] == 1 and name not in allowed

        request.topics = [topic for topic in requested if not is_refused(topic.name)]
        served: list[CreatableTopicResult] = []
        if request.topics:
            served = (await serve(request)).topics
        for result in served:
            if result.name not in described and result.name != CLUSTER_METADATA_TOPIC:
                _hide(result, is_twice=times[result.name] > 1)
        rows = iter(served)
        return CreateTopicsResponse(
            topics=[
                _refused_creation(topic.name, topic.name in described)
                if is_refused(topic.name)
                else next(rows)
                for topic in requested
            ]
        )

    return around(respond)


def _hide(result: CreatableTopicResult, is_twice: bool) -> None:
    """Remove what only those may see who may describe the topic's configuration."""
    if result.error_code == ErrorCode.NONE or is_twice:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if result.error_code == ErrorCode.NONE:
        result.topic_id = ZERO_UUID
        result.num_partitions = result.replication_factor = -1
        result.configs = []


def _refused_creation(name: str, shows_config: bool) -> CreatableTopicResult:
    return CreatableTopicResult(
        name,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="Authorization failed.",
        topic_config_error_code=ErrorCode.NONE
        if shows_config
        else ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


CREATE_TOPICS = Api(
    key=ApiKey.CREATE_TOPICS,
    handler=lambda broker: CreateTopicsHandler(broker.is_controller, broker.topics, broker.entries),
    task=True,
    authorization=knowing(_guard),
    quota=Quota.MUTATIONS,
    changes_state=False,
    senders=Senders.CLIENTS_AND_BROKERS,
    to_controller=True,
)
