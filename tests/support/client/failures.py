"""The error codes with which calls of clients fail."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from minikafka.core.client.calls import Call
from minikafka.kernel.errors import ErrorCode, KafkaError


async def failure_code(awaitable: Awaitable[Any]) -> ErrorCode:
    """Return the code of the KafkaError that ``awaitable`` must raise."""
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value.code


def code_of(outcome: object) -> ErrorCode:
    """Return the code of an outcome, which must be a KafkaError."""
    assert isinstance(outcome, KafkaError)
    return outcome.code


def error_in(call: Call[Any], response: Any) -> KafkaError:
    """Return the KafkaError that reading ``response`` must raise."""
    with pytest.raises(KafkaError) as caught:
        call.read(response)
    return caught.value
