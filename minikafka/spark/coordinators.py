"""Asks the coordinator of a group or of a transactional id, wherever it is by now."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.schema import Message
from minikafka.spark.cluster import Cluster

_FIND_BY_ONE_KEY = 3


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """Found once, and again when they have moved."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}

    def ask(
        self, kind: CoordinatorKind, key: str, request: Message, highest_version: int | None = None
    ) -> Any:
        """The answer, rid of errors. Asked again while a coordinator moves or is busy, for at most
        ``delivery.timeout.ms``; raises KafkaError then, or at once for what does not pass."""

        def once() -> Any:
            try:
                answer = self._cluster.connection(self._find(kind, key)).request(
                    request, highest_version
                )
                for code in _codes(answer):
                    if code is not ErrorCode.NONE:
                        raise KafkaError(code, key)
            except KafkaError:
                self._coordinators.pop((kind, key), None)
                raise
            return answer

        name = type(request).__name__.removesuffix("Request")
        return self._cluster.retrying(
            once, f"{name} of {key}", self._cluster.options.delivery_timeout_ms
        )

    def _find(self, kind: CoordinatorKind, key: str) -> int:
        known = self._coordinators.get((kind, key))
        if known is None:
            request = FindCoordinatorRequest(key=key, key_type=int(kind))
            answer = self._cluster.request_any(request, _FIND_BY_ONE_KEY)
            code = ErrorCode(answer.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"coordinator of {key}")
            self._cluster.learn(answer.node_id, answer.host, answer.port)
            known = self._coordinators[kind, key] = answer.node_id
        return known


def _codes(answer: Any) -> Sequence[ErrorCode]:
    """Every error in one of the answers above."""
    values = [getattr(answer, "error_code", 0)]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        values += [row.partition_error_code for row in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        values += [row.error_code for row in topic.partitions]
    return [ErrorCode(value) for value in values]
