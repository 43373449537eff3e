"""The effects of decisions about transactions: purposes of appends, and the producer id and epoch
of responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from minikafka.core.coordinator_shard import (
    CoordinatorAppend,
    CoordinatorResult,
    RespondError,
)
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.transaction import Markers, Transaction
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProducerResult:
    """The contents of an InitProducerId or EndTxn response. The latter has a producer id and epoch
    since version 5."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


RespondProducer: TypeAlias = Callable[[ProducerResult], None]


@dataclass(frozen=True, slots=True)
class _TransactionAppendPurpose:
    """The base class of purposes: the transactional id to which the record belongs."""

    transaction: Transaction

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        return (self.transaction,)

    def event_facts(self) -> dict[str, Any]:
        return {"transactional_id": self.transaction.transactional_id}


@dataclass(frozen=True, slots=True)
class ProducerInitialization(_TransactionAppendPurpose):
    """Store the producer id and epoch of a new producer."""

    respond: RespondProducer


@dataclass(frozen=True, slots=True)
class PartitionsAddition(_TransactionAppendPurpose):
    """Store further partitions of a transaction."""

    respond: RespondError


@dataclass(frozen=True, slots=True)
class TransactionEnd(_TransactionAppendPurpose):
    """Store the outcome that EndTxn requests. ``client_version`` is the version of transactions
    that the producer uses."""

    respond: RespondProducer
    client_version: int


@dataclass(frozen=True, slots=True)
class TransactionFence(_TransactionAppendPurpose):
    """Store the abort of an earlier producer's transaction.

    ``respond`` belongs to the new producer of the transactional id. It is None after a time-out.
    """

    respond: RespondProducer | None


@dataclass(frozen=True, slots=True)
class TransactionCompletion(_TransactionAppendPurpose):
    """Store that all partitions have their markers."""


@dataclass(frozen=True, slots=True)
class Expiration:
    """Delete transactional ids that have not been used for ``transactional.id.expiration.ms``."""

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
