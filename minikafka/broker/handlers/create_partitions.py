"""CreatePartitions (key 37), answered by the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from minikafka.broker.context import RequestContext
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class Growth(Protocol):
    async def create_partitions(
        self, topics: Sequence[CreatePartitionsTopic], timeout_ms: int, validate_only: bool
    ) -> dict[str, KafkaError | None]: ...


class CreatePartitionsHandler:
    """A TaskHandler. One result per name in the request, in its order: as in Kafka, a topic that
    stands there twice has one answer."""

    def __init__(self, is_controller: Callable[[], bool], growth: Growth) -> None:
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
                once, request.timeout_ms, request.validate_only
            )
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name)
                if error is None
                else CreatePartitionsTopicResult(name, error.code, error.message)
                for name, error in errors.items()
            ]
        )
