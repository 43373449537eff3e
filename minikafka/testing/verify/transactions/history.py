"""The history of transactions: what each producer requested and when, and what each reader saw.

A record is identified by a ``RecordId`` of its transaction's number and its index in it. All times
are milliseconds into the run, of one clock: the clients share a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.append.history import UNSETTLED, Reading, RecordId

NEVER: Final = -1  # instead of a time


class TransactionOutcome(Enum):
    """How a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    IN_DOUBT = "in doubt"  # the commit was requested, and nobody acknowledged it
    ABORTED = "aborted"  # the commit was never requested


@dataclass(slots=True)
class Incarnation:
    """One of the producers that use a transactional id one after the other.

    ``begun_ms`` and ``ready_ms`` are the times before and after ``init_transactions``.
    """

    number: int
    transactional_id: str
    begun_ms: int
    ready_ms: int = NEVER

    def fences(self, other: Incarnation) -> bool:
        """Whether ``other`` was ready before this one, of the same id, began, and this one is
        ready."""
        return (
            self.transactional_id == other.transactional_id
            and self.ready_ms != NEVER
            and other.ready_ms != NEVER
            and self.begun_ms > other.ready_ms
        )


@dataclass(slots=True)
class ObservedTransaction:
    """A transaction: its records by index, the records it read, and when it was to be committed.

    ``offsets`` are those that were acknowledged, or UNSETTLED, or SOMEWHERE.
    """

    number: int
    incarnation: Incarnation
    begun_ms: int
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    reads: list[RecordId] = field(default_factory=list)
    commit_ms: int = NEVER  # before the commit was requested
    committed_ms: int = NEVER  # after it was acknowledged
    ended_ms: int = NEVER  # when the producer was done with it, however it ended

    def add(self, partition: int) -> RecordId:
        """Add a record that is about to be sent; return its id."""
        self.partitions.append(partition)
        self.offsets.append(UNSETTLED)
        return RecordId(self.number, len(self.offsets) - 1)

    @property
    def outcome(self) -> TransactionOutcome:
        if self.committed_ms != NEVER:
            return TransactionOutcome.COMMITTED
        return (
            TransactionOutcome.ABORTED if self.commit_ms == NEVER else TransactionOutcome.IN_DOUBT
        )

    @property
    def records(self) -> Iterator[tuple[RecordId, int, int]]:
        """Yield each record's id, partition and acknowledged offset."""
        for index, place in enumerate(zip(self.partitions, self.offsets, strict=True)):
            yield RecordId(self.number, index), *place


@dataclass(slots=True)
class TransactionHistory:
    """The history of a whole run.

    The two final readings are complete readings after all transactions have ended: with
    ``read_committed`` up to ``stable_ends``, the last stable offsets by partition, and with
    ``read_uncommitted`` up to ``ends``, the high watermarks. ``stable_offsets`` has each change of
    a last stable offset that one client saw in responses to ListOffsets, by partition, as (time,
    offset). ``unsettled`` lists transactional ids that no producer could take over in the end.
    """

    incarnations: list[Incarnation] = field(default_factory=list)
    transactions: list[ObservedTransaction] = field(default_factory=list)
    committed: list[Reading] = field(default_factory=list)  # of readers with read_committed
    uncommitted: list[Reading] = field(default_factory=list)
    final_committed: Reading = field(default_factory=lambda: Reading("final read_committed"))
    final_uncommitted: Reading = field(default_factory=lambda: Reading("final read_uncommitted"))
    stable_ends: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    stable_offsets: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    unsettled: list[str] = field(default_factory=list)
    ended: Counter[TransactionOutcome] = field(
        default_factory=Counter
    )  # how many transactions, so far

    def incarnate(self, transactional_id: str, now_ms: int) -> Incarnation:
        """Add a producer that is about to call ``init_transactions``."""
        incarnation = Incarnation(len(self.incarnations), transactional_id, now_ms)
        self.incarnations.append(incarnation)
        return incarnation

    def begin(self, incarnation: Incarnation, now_ms: int) -> ObservedTransaction:
        transaction = ObservedTransaction(len(self.transactions), incarnation, now_ms)
        self.transactions.append(transaction)
        return transaction

    def end(self, transaction: ObservedTransaction, now_ms: int) -> None:
        """Note that a producer is done with a transaction."""
        transaction.ended_ms = now_ms
        self.ended[transaction.outcome] += 1

    def note_stable_offset(self, partition: int, offset: int, now_ms: int) -> None:
        seen = self.stable_offsets.setdefault(partition, [])
        if not seen or seen[-1][1] != offset:
            seen.append((now_ms, offset))

    def transaction_of(self, record: RecordId | None, partition: int) -> ObservedTransaction | None:
        """Return the transaction that sent this record to this partition; None if none did."""
        if record is None or not record.producer < len(self.transactions):
            return None
        transaction = self.transactions[record.producer]
        if not record.number < len(transaction.partitions):
            return None
        return transaction if transaction.partitions[record.number] == partition else None

    def ends_of(self, reading: Reading) -> dict[int, int]:
        """Return the offsets, by partition, up to which a reader reads at last."""
        is_committed = reading is self.final_committed or reading in self.committed
        return self.stable_ends if is_committed else self.ends

    @property
    def readings(self) -> list[Reading]:
        return [*self.committed, *self.uncommitted, self.final_committed, self.final_uncommitted]
