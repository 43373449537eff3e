"""CreatePartitions (key 37), which the controller serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from minikafka.server.broker.admin.partitions import PartitionGrowth
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, before, knowing
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.quotas import Quota

STRICT_CREATE_PARTITIONS: Final = 3


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


def _guard(broker: Services) -> ApiGuard:
    async def admit(
        authorization: Authorization, context: RequestContext, request: CreatePartitionsRequest
    ) -> Admitted:
        """A topic that is named twice is refused by the handler."""
        if not broker.is_controller():
            return Admitted(request)
        times = Counter(topic.name for topic in request.topics)
        once = [name for name, count in times.items() if count == 1]
        allowed = await authorization.allowed(
            context, AclOperation.ALTER, AclResourceType.TOPIC, once
        )
        refused = {name for name in once if name not in allowed}
        if not refused:
            return Admitted(request)
        rows = [
            CreatePartitionsTopicResult(
                name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed."
            )
            for name in once
            if name in refused
        ]
        request.topics = [topic for topic in request.topics if topic.name not in refused]

        def join(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
            response.results = response.results + rows
            return response

        return Admitted(request, join)

    return before(admit)


CREATE_PARTITIONS = Api(
    key=ApiKey.CREATE_PARTITIONS,
    handler=lambda broker: CreatePartitionsHandler(
        broker.is_controller,
        PartitionGrowth(
            broker.store,
            broker.cache,
            broker.topic_reaper,
            broker.config.integer("max.partitions.per.topic"),
        ),
    ),
    task=True,
    authorization=knowing(_guard),
    quota=Quota.MUTATIONS,
    changes_state=False,
    to_controller=True,
)
