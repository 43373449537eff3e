"""Sequence numbers of an idempotent producer, and how errors change them (KIP-98, KIP-360)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.batch import MAX_SEQUENCE, increment_sequence

MAX_EPOCH: Final = 32_767

# After most retriable errors the batch may have been appended: a leader that resigns while a batch
# waits for followers responds like a broker that was no leader. After these errors it was not.
_BEFORE_THE_APPEND: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
# The broker has lost the state of the producer: the log was truncated, or the state has expired.
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})


class Stamp(NamedTuple):
    """The producer id, epoch and base sequence of a batch; -1 each without idempotence."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


class Stamped(Protocol):
    """The fields of a batch that ``Sequences`` reads and sets."""

    topic_partition: TopicPartition
    stamp: Stamp | None
    in_doubt: bool
    record_count: int


class BatchOutcome(Enum):
    """What to do with a batch after an error response."""

    RETRY = auto()
    DELIVERED = auto()  # the log has it already
    FAIL = auto()


@dataclass(slots=True)
class _Partition:
    """The sequence numbers of one partition.

    ``acknowledged`` is the sequence after the batches known to be written, ``next`` the one
    after the batches sent. ``lost`` means that the broker has lost the producer's state.
    ``burnt``: batches up to this sequence have failed but may have been written; a later
    acknowledgement shows that they were. With ``lost`` or ``burnt`` the partition restarts at
    sequence 0 in a new epoch as soon as no other batch is in flight.

    ``known`` means that the broker has accepted a batch of this producer. Before, the broker
    accepts any sequence, so the first batch is sent alone. (Kafka's client does not do that, and
    may begin with a gap.)
    """

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
    """The sequence numbers of one producer id in all its partitions.

    A partition may have several batches in flight. A broker accepts them only in the order of
    their sequences, so a retry neither reorders nor duplicates records.
    """

    def __init__(self, transactional: bool = False) -> None:
        self._transactional = transactional  # only the coordinator raises the epoch
        self.producer_id = -1
        self.epoch = -1
        self._partitions: dict[TopicPartition, _Partition] = {}

    @property
    def is_ready(self) -> bool:
        return self.producer_id >= 0

    def set_producer(self, producer_id: int, epoch: int) -> None:
        """Set the producer id and epoch from InitProducerId. Every partition begins at sequence
        0."""
        self.producer_id, self.epoch = producer_id, epoch
        self._partitions.clear()

    def stamp(self, batch: Stamped, others_in_flight: bool) -> bool:
        """Set the stamp of a batch that is about to be sent.

        Returns False if the batch must wait, for a producer id or for the other batches in
        flight. A batch that may have been written keeps its stamp, so that the broker recognises
        a duplicate.
        """
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
                return True  # its response shows whether the given up one was written
            if self._transactional:
                return False
            self._bump(state)
            if not self.is_ready:
                return False
            state = self._partitions[tp] = _Partition(self.producer_id, self.epoch)
        else:
            stamp = self._state_of(batch)[1]
            if batch.in_doubt and stamp and _reached(state.acknowledged, stamp.sequence):
                # It may have been written, and was if a later one is acknowledged. Sent with the
                # same stamp, it is recognised as a duplicate. (Behind a gap it was not written.)
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
        """Note that a batch was written, and with it all earlier ones of the partition."""
        state, stamp = self._state_of(batch)
        if state is None or stamp is None:
            return
        end = increment_sequence(stamp.sequence, batch.record_count)
        if _reached(end, state.acknowledged):
            state.acknowledged = end
        if state.burnt is not None and _reached(end, state.burnt):
            state.burnt = None
        state.known = True

    def refused(self, batch: Stamped, code: ErrorCode, retriable: bool) -> BatchOutcome:
        """Decide what to do with a batch after an error response, and update its ``in_doubt``.

        ``retriable`` says whether the caller would retry the batch after this error.
        """
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.acknowledged(batch)
            return BatchOutcome.DELIVERED
        state, stamp = self._state_of(batch)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR or (
            code.retriable and code not in _BEFORE_THE_APPEND
        ):
            batch.in_doubt = True
        if state is None or stamp is None:
            return BatchOutcome.RETRY if retriable else BatchOutcome.FAIL
        end = increment_sequence(stamp.sequence, batch.record_count)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if _reached(state.acknowledged, end):  # written: the broker remembers five
                return BatchOutcome.DELIVERED
            batch.in_doubt = False  # a batch behind a gap is not written
            if state.restart or stamp.sequence != state.acknowledged:
                return BatchOutcome.RETRY  # one before it is missing
            state.lost = True
            return BatchOutcome.FAIL
        if code in _FORGOTTEN and self._transactional:
            return BatchOutcome.FAIL
        if code in _FORGOTTEN:
            batch.in_doubt = False
            state.lost = True
            return BatchOutcome.RETRY
        return BatchOutcome.RETRY if retriable else BatchOutcome.FAIL

    def given_up(self, batch: Stamped) -> None:
        """Note that a batch has failed for good. If it may have been written, its sequences are
        burnt."""
        state, stamp = self._state_of(batch)
        if state is not None and stamp is not None and batch.in_doubt:
            end = increment_sequence(stamp.sequence, batch.record_count)
            if state.burnt is None or _reached(end, state.burnt):
                state.burnt = end

    def _state_of(self, batch: Stamped) -> tuple[_Partition | None, Stamp | None]:
        """Return the state of the batch's partition and the batch's stamp.

        Both are None if the partition has restarted in another epoch since.
        """
        state, stamp = self._partitions.get(batch.topic_partition), batch.stamp
        if state is None or stamp is None:
            return None, None
        same = (state.producer_id, state.epoch) == (stamp.producer_id, stamp.epoch)
        return (state, stamp) if same else (None, None)

    def _bump(self, state: _Partition) -> None:
        """Begin a new epoch, unless another partition has done so. After the last epoch, drop
        the id."""
        if (state.producer_id, state.epoch) != (self.producer_id, self.epoch):
            return
        if self.epoch >= MAX_EPOCH:
            self.producer_id = self.epoch = -1
        else:
            self.epoch += 1


def _reached(sequence: int, mark: int) -> bool:
    """Whether ``sequence`` is at or after ``mark``; sequences wrap around."""
    return (sequence - mark) & MAX_SEQUENCE < 1 << 30
