"""What decisions on transactions lead to: appends with their purposes, markers, responses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from minikafka.core.coordinator_shard import (
    CoordinatorAppend,
    CoordinatorResult,
    RespondError,
)
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.transaction import Markers, Transaction
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Initialized:
    """The response to InitProducerId."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


RespondInit: TypeAlias = Callable[[Initialized], None]


@dataclass(frozen=True, slots=True)
class _TransactionAppendPurpose:
    """The transactional id that the record belongs to."""

    transaction: Transaction

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        return (self.transaction,)

    def event_facts(self) -> dict[str, Any]:
        return {"transactional_id": self.transaction.transactional_id}


@dataclass(frozen=True, slots=True)
class ProducerInitialization(_TransactionAppendPurpose):
    """Give a producer its id and epoch."""

    respond: RespondInit


@dataclass(frozen=True, slots=True)
class PartitionsAddition(_TransactionAppendPurpose):
    """Add partitions to the transaction."""

    respond: RespondError


@dataclass(frozen=True, slots=True)
class TransactionEnd(_TransactionAppendPurpose):
    """Decide the outcome that the producer has asked for."""

    respond: RespondError


@dataclass(frozen=True, slots=True)
class TransactionFence(_TransactionAppendPurpose):
    """Abort the transaction of an earlier producer. ``respond`` belongs to the producer that begins
    with the transactional id; it is None after a time-out."""

    respond: RespondInit | None


@dataclass(frozen=True, slots=True)
class TransactionCompletion(_TransactionAppendPurpose):
    """Record that all partitions have their markers."""


@dataclass(frozen=True, slots=True)
class Expiration:
    """Delete transactional ids that have not been used for a long time."""

    transactions: tuple[Transaction, ...]

    def event_facts(self) -> dict[str, Any]:
        expired = [transaction.transactional_id for transaction in self.transactions]
        return {"transactional_ids": len(expired), "first": expired[0]}


TransactionAppendPurpose: TypeAlias = (
    ProducerInitialization
    | PartitionsAddition
    | TransactionEnd
    | TransactionFence
    | TransactionCompletion
    | Expiration
)

T = TypeVar("T")
TransactionAppend: TypeAlias = CoordinatorAppend[TransactionStored, TransactionAppendPurpose]
TransactionResult: TypeAlias = CoordinatorResult[
    T, TransactionStored, TransactionAppendPurpose, Markers
]
