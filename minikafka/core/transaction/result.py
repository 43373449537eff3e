"""What handling a request comes to: records, answers, markers to send, lines for the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.transaction import Transaction
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode

# Takes the answer: an error code, or an ``Initialized``.
Ticket: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Initialized:
    """The answer to InitProducerId."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Markers:
    """The end of a transaction, to be written to ``partitions`` and then told to
    ``TransactionShard.markers_written``. ``transaction`` is still the same one while its
    ``markers`` is this."""

    transaction: Transaction
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Records to be appended, in one batch, and to be replicated. Comes back to
    ``TransactionShard.settle`` with how it went; ``then`` says what it is for."""

    transactions: tuple[Transaction, ...]
    records: tuple[TransactionStored, ...]
    then: Any


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the event log."""

    level: str
    event: str
    facts: dict[str, Any]


@dataclass(slots=True)
class CoordinatorResult:
    """To be carried out in this order: notes, replies, markers, writes. ``retries``: writes to be
    made again in a moment."""

    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    markers: list[Markers] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    retries: list[Write] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def reply(self, ticket: Ticket | None, answer: Any) -> None:
        """``ticket`` None: nobody asked."""
        if ticket is not None:
            self.replies.append((ticket, answer))

    def note(self, event: str, transaction: Transaction, level: str = "info", **facts: Any) -> None:
        about = {"transactional_id": transaction.transactional_id, **facts}
        self.notes.append(Note(level, event, about))
