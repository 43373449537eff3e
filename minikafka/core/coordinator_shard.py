"""The interface of coordinator shards: replicated state machines without I/O.

A shard is the state of one partition of an internal topic: the groups of a partition of
``__consumer_offsets``, the transactional ids of a partition of ``__transaction_state``, or the
share-partitions of a partition of ``__share_group_state``. A request goes through these steps:

1. The coordinator calls a method of the shard. The method returns a ``CoordinatorResult``: the
   response, the responses to parked requests, effects such as timers, and records to append.
2. ``CoordinatorRuntime`` carries the result out and appends the records to the partition's log.
3. When the outcome of an append is known (replicated, or failed), the runtime calls ``settle``.
   After a success the shard replays the records, which changes its state, and returns the responses
   that depended on them.

A broker that becomes the leader of the partition builds the same state by replaying the log.
Kafka: ``CoordinatorShard``, ``CoordinatorResult`` of ``CoordinatorRuntime``.

Shards of all kinds share how a key finds its partition, and how many
deletions become batches of a size that every log accepts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from struct import iter_unpack
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass

A = TypeVar("A")
RespondError: TypeAlias = Callable[[ErrorCode], None]
Level: TypeAlias = Literal["info", "warning", "error"]


class AppendPurpose(Protocol):
    """The purpose of an append; ``settle`` continues according to its type."""

    def event_facts(self) -> dict[str, Any]:
        """Return the keys and values that identify the append in the event log."""
        ...


T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P", bound=AppendPurpose)
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The transaction to which appended records belong.

    ``guard`` is the verification that admitted the batch. It is None if the batch needs one and
    has none (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    guard: Verification | None = NOT_REQUIRED


@dataclass(frozen=True, slots=True)
class CoordinatorAppend(Generic[R, P]):
    """Records to append in one batch.

    With ``replicated`` the append succeeds when all in-sync replicas have the batch, otherwise
    when the leader has it. A batch in a transaction is always ``replicated``. An append without
    records succeeds immediately.
    """

    records: tuple[R, ...]
    purpose: P
    replicated: bool = True
    transaction: InTransaction | None = None

    def __post_init__(self) -> None:
        assert self.replicated or self.transaction is None


class DeferredReply(NamedTuple, Generic[A]):
    """A response and the callable that sends it to the client."""

    respond: Callable[[A], None]
    response: A

    def send(self) -> None:
        self.respond(self.response)


@dataclass(frozen=True, slots=True)
class ShardEvent:
    """An event for the event log."""

    level: Level
    name: str
    facts: dict[str, Any]


@dataclass(slots=True)
class CoordinatorResult(Generic[T, R, P, E]):
    """The result of a shard's decision, carried out in the order of its fields.

    ``response`` is the immediate response, or None. ``effects`` are timers (groups) or markers
    to send (transactions). ``retries`` are failed appends to repeat after a back-off.
    """

    response: T
    events: list[ShardEvent] = field(default_factory=list)
    replies: list[DeferredReply[Any]] = field(default_factory=list)
    effects: list[E] = field(default_factory=list)
    appends: list[CoordinatorAppend[R, P]] = field(default_factory=list)
    retries: list[CoordinatorAppend[R, P]] = field(default_factory=list)

    def reply(self, respond: Callable[[A], None], response: A) -> None:
        self.replies.append(DeferredReply(respond, response))

    def responding(self, response: A) -> CoordinatorResult[A, R, P, E]:
        """Return this result with ``response`` as its immediate response."""
        return CoordinatorResult(
            response, self.events, self.replies, self.effects, self.appends, self.retries
        )

    def event(self, name: str, *, level: Level = "info", **facts: Any) -> None:
        self.events.append(ShardEvent(level, name, facts))


class CoordinatorShard(ABC, Generic[R, P, E]):
    """The state machine of one partition. Records change it only through ``replay``."""

    awaits_replication: ClassVar[bool]
    """Whether a new leader serves only after all that it has loaded is replicated."""

    keeps_all_records: ClassVar[bool] = False
    """Whether records with the same key add up. Otherwise the last one counts, as after
    compaction."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of groups, transactional ids or share-partitions."""

    @abstractmethod
    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Encode a record as key and value. Raises EncodeError for a text over 32 KB."""

    @staticmethod
    @abstractmethod
    def decode(key: bytes, value: bytes | None) -> R | None:
        """Decode a record; None for a record type of a later Kafka. Raises DecodeError if
        invalid."""

    @abstractmethod
    def replay(self, record: R, offset: int, producer_id: int | None = None) -> None:
        """Apply a record of the batch at log offset ``offset``.

        ``producer_id`` is set if the record belongs to a transaction.
        """

    @abstractmethod
    def replay_end_transaction_marker(self, producer_id: int, offset: int, committed: bool) -> None:
        """Apply the marker at log offset ``offset`` that ends a transaction of the producer."""

    @abstractmethod
    def loaded(self, now_ms: int) -> CoordinatorResult[None, R, P, E]:
        """Called after the log was replayed, before the first request. Returns timers or
        markers."""

    @abstractmethod
    def unloaded(self, now_ms: int) -> CoordinatorResult[None, R, P, E]:
        """Called when this broker stops coordinating the partition. Drops all state."""

    @abstractmethod
    def settle(
        self, append: CoordinatorAppend[R, P], error: ErrorCode, base_offset: int, now_ms: int
    ) -> CoordinatorResult[None, R, P, E]:
        """Called exactly once for each append, also after ``unloaded``, with its outcome.

        The records are in the log from ``base_offset`` on, or ``error`` says why they are not.
        After REQUEST_TIMED_OUT they may be in the log nevertheless.
        """


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group id or transactional id, as Kafka chooses it.

    It is the absolute value of Java's string hash, modulo the number of partitions. The smallest
    32-bit hash has no absolute value in Java and counts as 0.
    """
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def java_string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: over UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
            value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


# Well below the usual ``max.message.bytes``; Kafka fills its batches up to that.
BATCH_BYTES: Final = 64 << 10
# The largest size of a record without the texts in its key.
RECORD_BYTES: Final = 40


def in_batches(records: Iterable[R], text_bytes: Callable[[R], int]) -> Iterator[tuple[R, ...]]:
    """Cut items into batches in order, with at least one item in each. ``text_bytes`` returns the
    size of the names in a record's key, each of which may have 32 KB."""
    batch: list[R] = []
    size = 0
    for record in records:
        more = RECORD_BYTES + text_bytes(record)
        if batch and size + more > BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield tuple(batch)
