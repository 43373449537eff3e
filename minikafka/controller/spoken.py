"""A connection to a broker in the versions that it speaks, which it is asked for first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from minikafka.core.controller.older_versions import for_version
from minikafka.core.controller.request_batch import ControlRequest
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.stop_replica import StopReplicaResponse
from minikafka.protocol.schema import Message

# Answered by every broker since 0.10, whatever else it speaks.
OLDEST_VERSION = 0


class PlainChannel(Protocol):
    """What is needed of a connection."""

    async def request(self, message: Message, version: int, timeout_ms: int) -> Any: ...

    def close(self) -> None: ...


class SpokenChannel:
    """Kafka goes by ``inter.broker.protocol.version``; here each broker says what it speaks, so
    that brokers of several versions, Kafka's among them, live in one cluster."""

    def __init__(self, channel: PlainChannel, newest: Mapping[int, int]) -> None:
        """``newest``: the newest version of each API that the broker speaks."""
        self._channel = channel
        self._newest = newest

    @classmethod
    async def ask(cls, channel: PlainChannel, timeout_ms: int) -> SpokenChannel:
        """Raises ConnectionError, TimeoutError; then the connection is closed."""
        try:
            answer = await channel.request(ApiVersionsRequest(), OLDEST_VERSION, timeout_ms)
        except BaseException:
            channel.close()
            raise
        return cls(channel, {row.api_key: row.max_version for row in answer.api_keys})

    def close(self) -> None:
        self._channel.close()

    async def request(self, message: ControlRequest, version: int, timeout_ms: int) -> Any:
        """Not above ``version``. Raises ConnectionError, TimeoutError."""
        assert message.SPEC.api_key is not None
        version = min(version, self._newest.get(message.SPEC.api_key, version))
        answers = [
            await self._channel.request(one, version, timeout_ms)
            for one in for_version(message, version)
        ]
        return answers[0] if len(answers) == 1 else _merged(answers)


def _merged(answers: list[StopReplicaResponse]) -> StopReplicaResponse:
    """Only a StopReplica becomes several requests, or (with no partition) none."""
    codes = [answer.error_code for answer in answers if answer.error_code]
    errors = [error for answer in answers for error in answer.partition_errors]
    return StopReplicaResponse(codes[0] if codes else 0, errors)
