"""Sequence numbers of an idempotent producer, and what errors do to them (KIP-98, KIP-360)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.batch import MAX_SEQUENCE, increment_sequence

MAX_EPOCH: Final = 32_767

# What may be tried again has perhaps been appended all the same: a leader that steps down, or loses
# the partition, while a batch waits for followers answers as one that never led. Not so with these.
_BEFORE_THE_APPEND: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
# The broker knows nothing of what it had acknowledged before: its log was cut, or has expired.
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})


class Stamp(NamedTuple):
    """What a batch is sent under: -1, -1, -1 without idempotence."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


class Stamped(Protocol):
    """What of a batch counts here."""

    topic_partition: TopicPartition
    stamp: Stamp | None
    in_doubt: bool
    record_count: int


class Verdict(Enum):
    """What becomes of a batch that was refused."""

    RETRY = auto()
    DELIVERED = auto()  # it was there already
    FAIL = auto()


@dataclass(slots=True)
class _Partition:
    """``acknowledged``: the sequence after what is known to be written; ``next`` the one after what
    was sent. ``lost``: the broker has lost its memory. ``burnt``: up to here batches were given up
    of which nobody knows whether they were written; an acknowledgement from beyond tells that they
    were. With either, it goes on at 0 under a new epoch once all else is settled.
    ``known``: the broker has taken something of this producer. Before, it takes any sequence first,
    so that one batch has to go alone (Kafka's client does without, and may begin out of order)."""

    producer_id: int
    epoch: int
    acknowledged: int = 0
    next: int = 0
    lost: bool = False
    burnt: int | None = None
    known: bool = False

    @property
    def restart(self) -> bool:
        return self.lost or self.burnt is not None


class Sequences:
    """One producer id. Several batches of a partition may be on their way; a broker takes them in
    the order of their sequences only, so retries cannot reorder or double anything."""

    def __init__(self, transactional: bool = False) -> None:
        self._transactional = transactional  # epochs are the coordinator's: none is made up here
        self.producer_id = -1
        self.epoch = -1
        self._partitions: dict[TopicPartition, _Partition] = {}

    @property
    def is_ready(self) -> bool:
        return self.producer_id >= 0

    def set_producer(self, producer_id: int, epoch: int) -> None:
        """As the broker gave it. Every partition begins at 0."""
        self.producer_id, self.epoch = producer_id, epoch
        self._partitions.clear()

    def stamp(self, batch: Stamped, others_in_flight: bool) -> bool:
        """Stamp a batch that is about to be sent. False: not yet, for lack of a producer id, or
        while others are in flight."""
        if not self.is_ready:
            return False
        tp = batch.topic_partition
        state = self._partitions.get(tp)
        if state is None:
            state = self._partitions[tp] = _Partition(self.producer_id, self.epoch)
        if others_in_flight:
            if state.restart or not state.known or batch.stamp is not None:
                return False
        elif state.restart:
            if batch.in_doubt:
                return True  # as before: the answer will tell whether the one given up was written
            if self._transactional:
                return False
            self._bump(state)
            if not self.is_ready:
                return False
            state = self._partitions[tp] = _Partition(self.producer_id, self.epoch)
        else:
            stamp = self._state_of(batch)[1]
            if batch.in_doubt and stamp and _reached(state.acknowledged, stamp.sequence):
                # It may be written, and is if a later one has been acknowledged: sent as before,
                # it is recognised. (Behind a gap it cannot be: then it closes up.)
                end = increment_sequence(stamp.sequence, batch.record_count)
                state.next = state.acknowledged if _reached(state.acknowledged, end) else end
                return True
            state.next = state.acknowledged
            if (state.producer_id, state.epoch) != (self.producer_id, self.epoch):
                if batch.in_doubt:
                    return True
                state = self._partitions[tp] = _Partition(self.producer_id, self.epoch)
        batch.stamp = Stamp(state.producer_id, state.epoch, state.next)
        state.next = increment_sequence(state.next, batch.record_count)
        return True

    def acknowledged(self, batch: Stamped) -> None:
        """It is written, and with it all before it."""
        state, stamp = self._state_of(batch)
        if state is None or stamp is None:
            return
        end = increment_sequence(stamp.sequence, batch.record_count)
        if _reached(end, state.acknowledged):
            state.acknowledged = end
        if state.burnt is not None and _reached(end, state.burnt):
            state.burnt = None
        state.known = True

    def refused(self, batch: Stamped, code: ErrorCode, retriable: bool) -> Verdict:
        """An error came back for it; marks what the batch's outcome is now."""
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.acknowledged(batch)
            return Verdict.DELIVERED
        state, stamp = self._state_of(batch)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR or (
            code.retriable and code not in _BEFORE_THE_APPEND
        ):
            batch.in_doubt = True
        if state is None or stamp is None:
            return Verdict.RETRY if retriable else Verdict.FAIL
        end = increment_sequence(stamp.sequence, batch.record_count)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if _reached(state.acknowledged, end):  # long written: the broker remembers five
                return Verdict.DELIVERED
            batch.in_doubt = False  # nothing behind a gap is written
            if state.restart or stamp.sequence != state.acknowledged:
                return Verdict.RETRY  # one before it is missing
            state.lost = True
            return Verdict.FAIL
        if code in _FORGOTTEN and self._transactional:
            return Verdict.FAIL
        if code in _FORGOTTEN:
            batch.in_doubt = False
            state.lost = True
            return Verdict.RETRY
        return Verdict.RETRY if retriable else Verdict.FAIL

    def given_up(self, batch: Stamped) -> None:
        """It will not be sent again. Where it may have been written, its numbers are burnt."""
        state, stamp = self._state_of(batch)
        if state is not None and stamp is not None and batch.in_doubt:
            end = increment_sequence(stamp.sequence, batch.record_count)
            if state.burnt is None or _reached(end, state.burnt):
                state.burnt = end

    def _state_of(self, batch: Stamped) -> tuple[_Partition | None, Stamp | None]:
        """The partition's state, unless it has restarted since the batch was stamped."""
        state, stamp = self._partitions.get(batch.topic_partition), batch.stamp
        if state is None or stamp is None:
            return None, None
        same = (state.producer_id, state.epoch) == (stamp.producer_id, stamp.epoch)
        return (state, stamp) if same else (None, None)

    def _bump(self, state: _Partition) -> None:
        """A new epoch, unless another partition has brought one already. The epochs of one id end;
        then the producer needs a new id."""
        if (state.producer_id, state.epoch) != (self.producer_id, self.epoch):
            return
        if self.epoch >= MAX_EPOCH:
            self.producer_id = self.epoch = -1
        else:
            self.epoch += 1


def _reached(sequence: int, mark: int) -> bool:
    """Whether ``sequence`` is at ``mark`` or beyond, over the end of the numbers if need be."""
    return (sequence - mark) & MAX_SEQUENCE < 1 << 30
