"""Changes of single configuration keys, and the checks that apply to all resources."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.config_resources import AlterOperation
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of an alter request: a key, its new value and an ``AlterOperation``."""

    name: str
    value: str | None
    operation: int = AlterOperation.SET


def check_names(changes: Sequence[Change]) -> None:
    """Check that no key is named twice, and that only deletions have a null value.

    Raises KafkaError(INVALID_REQUEST)."""
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in changes if c.value is None and c.operation != AlterOperation.DELETE]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )
