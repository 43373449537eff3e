"""The vocabulary of configuration requests: resource types, operations, changes of single keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from minikafka.kernel.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    """Kafka's ``ConfigResource.Type``."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class Operation(IntEnum):
    """Kafka's ``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one key."""

    name: str
    value: str | None
    operation: int = Operation.SET


def check_names(changes: Sequence[Change]) -> None:
    """Refuse a key that is named twice, and a null value of anything but a deletion.

    Raises KafkaError INVALID_REQUEST."""
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operation != Operation.DELETE]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
