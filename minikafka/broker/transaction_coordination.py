"""What the transaction handlers need of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.core.transaction.result import Initialized
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.describe_transactions import TransactionState
from minikafka.protocol.messages.list_transactions import ListTransactionsResponse


class TransactionCoordination(Protocol):
    """``reply`` is called exactly once, now or later."""

    async def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
    ) -> Initialized:
        """Raises KafkaError."""
        ...

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        reply: Callable[[ErrorCode], None],
    ) -> None: ...

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        reply: Callable[[ErrorCode], None],
    ) -> None: ...

    def describe(self, transactional_id: str) -> TransactionState: ...

    def list_transactions(
        self, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int
    ) -> ListTransactionsResponse: ...


def as_known_to(version: int, error: ErrorCode, first_with_fenced: int = 2) -> ErrorCode:
    """PRODUCER_FENCED for clients that know it; before, INVALID_PRODUCER_EPOCH meant the same."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
