"""Guards of topics: Metadata, CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.authorization.facts import GuardFacts
from minikafka.broker.requests.authorization.wrapping import Admitted, Guard, Serve, around, before
from minikafka.broker.requests.routes import RequestContext, Route
from minikafka.broker.requests.topics import CLUSTER_METADATA_TOPIC, refused_deletion
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import INTERNAL_TOPICS, ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from minikafka.protocol.messages.create_topics import (
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
from minikafka.protocol.messages.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC = AclResourceType.TOPIC
FIRST_METADATA_VERSION_WITH_IDS = 12


def metadata(facts: GuardFacts) -> Guard:
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
                context, AclOperation.DESCRIBE, TOPIC, names, log_if_denied=False
            )
            response.topics = [topic for topic in response.topics if topic.name in allowed]
        else:
            if _is_invalid(context, request.topics):
                request.include_topic_authorized_operations = False
                return await _served(serve, request)  # all topics are refused as invalid
            if any(topic.topic_id != ZERO_UUID for topic in request.topics):
                refused = await _refuse_ids(authorization, context, request, request.topics, facts)
            else:
                refused = await _refuse_names(
                    authorization, context, request, request.topics, facts
                )
            response = await _without_hidden(serve, context, request, refused)
        if wants_cluster:
            response.cluster_authorized_operations = await authorization.cluster_operations(context)
        if wants_topics:
            names = [topic.name for topic in response.topics if topic.name is not None]
            fields = await authorization.operations(context, TOPIC, names)
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
    return context.version < FIRST_METADATA_VERSION_WITH_IDS and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in topics
    )


async def _refuse_ids(
    authorization: Authorization,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    facts: GuardFacts,
) -> list[MetadataResponseTopic]:
    """Take from the request the ids whose topics are not allowed, and all names, which count for
    nothing beside ids. Ids are no secret, names are. Return the refused rows."""
    ids = {topic.topic_id: facts.topic_name(topic.topic_id) for topic in topics}
    ids.pop(ZERO_UUID, None)
    names = [name for name in ids.values() if name is not None]
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TOPIC, names)
    request.topics = [
        MetadataRequestTopic(topic_id, None)
        for topic_id, name in ids.items()
        if name is None or name in allowed
    ]
    return [
        MetadataResponseTopic(REFUSED, None, topic_id)
        for topic_id, name in ids.items()
        if name is not None and name not in allowed
    ]


async def _refuse_names(
    authorization: Authorization,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[MetadataRequestTopic],
    facts: GuardFacts,
) -> list[MetadataResponseTopic]:
    """Take from the request the names that may not be described, and those that are missing and may
    not be created. Return the refused rows."""
    names = list(dict.fromkeys(topic.name or "" for topic in topics))
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TOPIC, names)
    refused = [MetadataResponseTopic(REFUSED, name) for name in names if name not in allowed]
    kept = [name for name in names if name in allowed]
    if request.allow_auto_topic_creation and facts.auto_creates_topics():
        missing = [name for name in kept if not facts.contains_topic(name)]
        if missing and not authorization.on_cluster(
            context, AclOperation.CREATE, log_if_denied=False
        ):
            creatable = await authorization.allowed(context, AclOperation.CREATE, TOPIC, missing)
            uncreatable = {name for name in missing if name not in creatable}
            kept = [name for name in kept if name not in uncreatable]
            refused += [
                MetadataResponseTopic(REFUSED, name, is_internal=name in INTERNAL_TOPICS)
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


def create_topics(facts: GuardFacts) -> Guard:
    """Return the guard of CreateTopics. The configurations of a new topic, its size and its id are
    only shown to whom may describe them."""

    async def respond(
        authorization: Authorization,
        context: RequestContext,
        request: CreateTopicsRequest,
        serve: Serve,
    ) -> CreateTopicsResponse:
        if not facts.is_controller():
            response: CreateTopicsResponse = await serve(request)
            return response
        requested = request.topics
        times = Counter(topic.name for topic in requested)
        names = [name for name in times if name != CLUSTER_METADATA_TOPIC]
        allowed = set(names)
        if not authorization.on_cluster(context, AclOperation.CREATE, log_if_denied=False):
            allowed = await authorization.allowed(context, AclOperation.CREATE, TOPIC, names)
        described = await authorization.allowed(
            context, AclOperation.DESCRIBE_CONFIGS, TOPIC, names, log_if_denied=False
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
        result.topic_config_error_code = REFUSED
    if result.error_code == ErrorCode.NONE:
        result.topic_id = ZERO_UUID
        result.num_partitions = result.replication_factor = -1
        result.configs = []


def _refused_creation(name: str, shows_config: bool) -> CreatableTopicResult:
    return CreatableTopicResult(
        name,
        error_code=REFUSED,
        error_message="Authorization failed.",
        topic_config_error_code=ErrorCode.NONE if shows_config else REFUSED,
    )


def delete_topics(facts: GuardFacts) -> Guard:
    """Return the guard of DeleteTopics, which applies after the errors of the whole request. Who
    deletes by id, and may not describe the topic, does not learn its name."""

    def guard(authorization: Authorization, route: Route) -> Route:
        async def respond(
            authorization: Authorization,
            context: RequestContext,
            request: DeleteTopicsRequest,
            serve: Serve,
        ) -> DeleteTopicsResponse:
            requested = request.topics or [DeleteTopicState(name) for name in request.topic_names]
            response: DeleteTopicsResponse
            is_controller, is_enabled = facts.is_controller(), facts.deletes_topics
            refusal = refused_deletion(is_controller, is_enabled, context.version, requested)
            if refusal is not ErrorCode.NONE:
                response = await serve(request)
                return response
            named = [(topic, _name_of(topic, facts)) for topic in requested]
            names = [name for _, name in named if name is not None]
            described = await authorization.allowed(context, AclOperation.DESCRIBE, TOPIC, names)
            deletable = await authorization.allowed(context, AclOperation.DELETE, TOPIC, names)
            refused: dict[int, DeletableTopicResult] = {}
            for place, (topic, name) in enumerate(named):
                if name is None:
                    continue
                if topic.topic_id != ZERO_UUID and name not in described:
                    refused[place] = DeletableTopicResult(None, topic.topic_id, REFUSED)
                elif name not in deletable:
                    refused[place] = DeletableTopicResult(name, topic.topic_id, REFUSED)
            if not refused:
                response = await serve(request)
                return response
            kept = [topic for place, topic in enumerate(requested) if place not in refused]
            request.topics = kept
            request.topic_names = []
            served = iter((await serve(request)).responses if kept else ())
            rows = [refused.get(place) or next(served) for place in range(len(requested))]
            return DeleteTopicsResponse(responses=rows)

        return around(respond)(authorization, route)

    return guard


def _name_of(topic: DeleteTopicState, facts: GuardFacts) -> str | None:
    return topic.name if topic.topic_id == ZERO_UUID else facts.topic_name(topic.topic_id)


def create_partitions(facts: GuardFacts) -> Guard:
    async def admit(
        authorization: Authorization, context: RequestContext, request: CreatePartitionsRequest
    ) -> Admitted:
        """A topic that is named twice is refused by the handler."""
        if not facts.is_controller():
            return Admitted(request)
        times = Counter(topic.name for topic in request.topics)
        once = [name for name, count in times.items() if count == 1]
        allowed = await authorization.allowed(context, AclOperation.ALTER, TOPIC, once)
        refused = {name for name in once if name not in allowed}
        if not refused:
            return Admitted(request)
        rows = [
            CreatePartitionsTopicResult(name, REFUSED, "The topic authorization is failed.")
            for name in once
            if name in refused
        ]
        request.topics = [topic for topic in request.topics if topic.name not in refused]

        def join(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
            response.results = response.results + rows
            return response

        return Admitted(request, join)

    return before(admit)
