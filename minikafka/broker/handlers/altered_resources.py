"""What AlterConfigs and IncrementalAlterConfigs share: resources, each with its error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from minikafka.kernel.errors import ErrorCode, KafkaError


class Resource(Protocol):
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


async def outcomes(
    resources: Sequence[R], alter: Callable[[R], Awaitable[None]]
) -> list[tuple[ErrorCode, str | None]]:
    """In the order of the resources. One that is named twice is altered not at all."""
    times = Counter((r.resource_type, r.resource_name) for r in resources)
    told: list[tuple[ErrorCode, str | None]] = []
    for resource in resources:
        if times[resource.resource_type, resource.resource_name] > 1:
            told.append((ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
            continue
        try:
            await alter(resource)
        except KafkaError as error:
            told.append((error.code, error.message))
        else:
            told.append((ErrorCode.NONE, None))
    return told
