"""The state of one transactional id: stored facts, pending append, and the table of states.

A transaction goes through these states::

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit ──► Ongoing, Empty or Dead
                  └─────► PrepareAbort ───► CompleteAbort ───► Ongoing, Empty or Dead

AddPartitionsToTxn makes it Ongoing. EndTxn, or the coordinator after a time-out, writes a
prepare record: from then on the outcome is decided. When all partitions have their markers, the
coordinator writes the complete record. InitProducerId makes it Empty in the next producer epoch.

Since version 2 of transactions (KIP-890) every end raises the producer epoch, so that a late
request cannot pass for one of the next transaction. The producer gets the next epoch in the
response to EndTxn. It may also abort when the coordinator knows of no open transaction: the
producer does not know whether its first request has begun one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 2**15 - 1

# Levels of the feature ``transaction.version``.
FLEXIBLE_RECORDS: Final = 1
EPOCH_OF_EACH_TRANSACTION: Final = 2

# ---- states


class TransactionState(IntEnum):
    """The states of a transaction, by their numbers in ``__transaction_state``.

    ``title`` is Kafka's name of the state. DEAD and PREPARE_EPOCH_FENCE are never stored: an
    expired transactional id is deleted, and the record that begins an abort has the next
    producer epoch.
    """

    title: str

    def __new__(cls, number: int, title: str) -> TransactionState:
        state = int.__new__(cls, number)
        state._value_ = number
        state.title = title
        return state

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether the transactional id may expire: no transaction is open or prepared."""
        return self in VALID_PREVIOUS_STATES[TransactionState.DEAD]


S = TransactionState

VALID_PREVIOUS_STATES: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        S.EMPTY: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.ONGOING: frozenset({S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.PREPARE_COMMIT: frozenset({S.ONGOING}),
        S.PREPARE_ABORT: frozenset(
            {S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
        ),
        S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
        S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
        S.DEAD: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
    }
)

STATES_BY_TITLE: Mapping[str, TransactionState] = MappingProxyType({s.title: s for s in S})
STATES_BY_NUMBER: Mapping[int, TransactionState] = MappingProxyType({int(s): s for s in S})

# ---- facts


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer id has no epoch left for another producer.

    One epoch is reserved, so that the coordinator can always fence the last producer.
    """
    return producer_epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """The contents of a transactional id's record (Kafka's ``TxnTransitMetadata``).

    Times are wall milliseconds, -1 for none. ``partitions`` are those to which the open or
    prepared transaction writes.

    ``last_producer_id`` is the producer id of the facts before. ``last_epoch`` is the previous
    epoch of the producer, if it got the current one by naming that: a repeated InitProducerId
    gets the same response (KIP-360). It is not in the record, so after a change of coordinators
    a repeated InitProducerId is fenced.

    ``client_version`` is the version of transactions with which the producer changed the facts
    last. ``next_producer_id`` is set in the prepared states if the producer continues with
    another id, because its own has no epoch left.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int = NO_TIME
    start_ms: int = NO_TIME
    last_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    # -- the next facts; the caller checks whether the transition is allowed

    def with_next_epoch(
        self, timeout_ms: int, now_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionFacts:
        """Return the facts of a producer that begins in the next epoch."""
        last_epoch = NO_EPOCH if expected is None else self.producer_epoch
        return self._begun(
            self.producer_id, self.producer_epoch + 1, last_epoch, timeout_ms, now_ms
        )

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionFacts:
        """Return the facts of a producer that begins with a new id, since the old one has no
        epochs left."""
        last_epoch = NO_EPOCH if expected is None else self.producer_epoch
        return self._begun(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def repeated(self, timeout_ms: int, now_ms: int) -> TransactionFacts:
        """Return the facts after a repeated InitProducerId: the producer keeps its id and epoch."""
        return self._begun(
            self.producer_id, self.producer_epoch, self.last_epoch, timeout_ms, now_ms
        )

    def _begun(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionFacts:
        return self._changed(
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            last_epoch=last_epoch,
        )

    def with_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> TransactionFacts:
        """Return the facts with further partitions. The first ones begin the transaction."""
        ongoing = self.state is TransactionState.ONGOING
        return self._changed(
            now_ms,
            state=TransactionState.ONGOING,
            partitions=self.partitions | added if ongoing else added,
            start_ms=self.start_ms if ongoing else now_ms,
            client_version=client_version,
        )

    def ended(self, committed: bool, now_ms: int) -> TransactionFacts:
        """Return the facts with the decided outcome, which is final."""
        return self._changed(
            now_ms,
            state=prepared(committed),
            next_producer_id=NO_PRODUCER_ID,
            client_version=0,
        )

    def ended_in_next_epoch(
        self, committed: bool, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionFacts:
        """Return the facts with the decided outcome as version 2 has them: in the next epoch.

        With ``next_producer_id`` the producer continues with this id after the transaction. The
        last epoch is never given to a producer, so it is not raised further.
        """
        ongoing = self.state is TransactionState.ONGOING
        return self._changed(
            now_ms,
            state=prepared(committed),
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if ongoing else now_ms,
            client_version=EPOCH_OF_EACH_TRANSACTION,
        )

    def fenced(self, transaction_version: int, now_ms: int) -> TransactionFacts:
        """Return the facts of an abort by the coordinator, in the next epoch to fence the
        producer. ``transaction_version`` is that of the cluster."""
        aborted = self.ended_in_next_epoch(committed=False, now_ms=now_ms)
        if transaction_version >= EPOCH_OF_EACH_TRANSACTION:
            return aborted
        return replace(aborted, last_epoch=NO_EPOCH, client_version=0)

    def completed(self, now_ms: int) -> TransactionFacts:
        """Return the facts after all partitions have got their markers."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self._changed(
            now_ms,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            state=TransactionState.COMPLETE_COMMIT
            if committed
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
        )

    def _changed(self, now_ms: int, **changes: Any) -> TransactionFacts:
        return replace(self, last_update_ms=now_ms, last_producer_id=self.producer_id, **changes)


def prepared(committed: bool) -> TransactionState:
    """Return the state of a transaction whose outcome is decided."""
    return TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT


# ---- the transactional id


@dataclass(frozen=True, slots=True, eq=False)
class Markers:
    """The commit or abort markers of one transaction, to be written to ``partitions``.

    ``client_version`` is that of the facts. Compared by identity: only results for the current
    ``Markers`` of a transactional id count.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


class Transaction:
    """The state of one transactional id (Kafka's ``TransactionMetadata``).

    ``facts`` are those of the last replicated record. ``pending`` is the state in the record
    that is being appended, if any; no other record may be appended until it is settled. In a
    prepared state ``unmarked`` are the partitions without a marker, and ``markers`` the markers
    being sent.
    """

    __slots__ = ("facts", "markers", "pending", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, facts: TransactionFacts) -> None:
        self.transactional_id = transactional_id
        self.facts = facts
        self.pending: TransactionState | None = None
        self.unmarked: set[TopicPartition] = set()
        self.markers: Markers | None = None

    @property
    def is_new(self) -> bool:
        """Whether its first record is not yet in the log."""
        return self.facts.producer_epoch == NO_EPOCH

    @property
    def is_visible(self) -> bool:
        """Whether DescribeTransactions and ListTransactions show it: it is neither new nor
        expiring."""
        return not self.is_new and self.pending is not TransactionState.DEAD

    def prepare(self, state: TransactionState) -> None:
        """Note that a record with ``state`` is about to be appended."""
        assert self.pending is None, f"{self.transactional_id}: {self.pending} is pending"
        self._check_transition(state)
        self.pending = state

    def become(self, facts: TransactionFacts) -> None:
        """Apply the facts of a replicated record."""
        if self.pending is not None:  # otherwise it was loaded: compaction may have left gaps
            assert facts.state is self.pending, f"{self.transactional_id}: {facts.state}"
            self._check_transition(facts.state)
            if facts.producer_id == self.facts.producer_id:
                assert facts.producer_epoch >= self.facts.producer_epoch, "epochs never go back"
        self.facts = facts
        self.pending = None
        self.unmarked = set(facts.partitions) if facts.state.is_prepared else set()

    def _check_transition(self, state: TransactionState) -> None:
        previous = VALID_PREVIOUS_STATES[state]
        assert self.facts.state in previous, f"{self.transactional_id}: {self.facts.state}>{state}"


# ---- InitProducerId: whether a producer may begin, and its producer id and epoch (KIP-360)


def rotates(facts: TransactionFacts, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether the next producer needs a new producer id, because the id has no epoch left.

    The last epoch is never given to a producer, not even to one that names the epoch before."""
    return is_exhausted(facts.producer_epoch) and (
        expected is None
        or expected.epoch == facts.producer_epoch
        or (expected.epoch == facts.last_epoch and facts.producer_epoch == MAX_EPOCH)
    )


def refusal_to_begin(
    transaction: Transaction, expected: ProducerIdAndEpoch | None
) -> ErrorCode | None:
    """Return the error code for a producer that may not begin, else None.

    ``expected`` is the producer id and epoch that the producer names, if any. The id must be one
    of:

    A. The current producer id.
    B. The id before it, if that had no epochs left: the producer repeats its request.

    While a transaction is open, a producer that names another epoch may not abort it. (In Kafka
    it may: the transaction of its successor is aborted before it is fenced.)
    """
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    facts = transaction.facts
    if expected is not None and not transaction.is_new:
        is_it = expected.producer_id == facts.producer_id  # A
        was_it = expected.producer_id == facts.last_producer_id
        if not is_it and not (was_it and is_exhausted(expected.epoch)):  # B
            return ErrorCode.PRODUCER_FENCED
        if facts.state is TransactionState.ONGOING and expected.epoch != facts.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if facts.state.is_prepared else None


def begun(
    facts: TransactionFacts,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> TransactionFacts | None:
    """Return the facts of the new producer, or None if it is fenced.

    Kafka: ``prepareIncrementProducerEpoch``, ``prepareProducerIdRotation``.
    """
    if rotates(facts, expected):
        assert fresh_id is not None
        return facts.with_producer_id(fresh_id, timeout_ms, now_ms, expected)
    new = facts.producer_epoch == NO_EPOCH
    if expected is None or new or expected.epoch == facts.producer_epoch:
        return facts.with_next_epoch(timeout_ms, now_ms, expected)
    if expected.epoch == facts.last_epoch:
        return facts.repeated(timeout_ms, now_ms)
    return None
