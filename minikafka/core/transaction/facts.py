"""What is known of a transactional id: its producer, its epoch, its transaction. Values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from minikafka.core.transaction.states import TransactionState
from minikafka.kernel.cluster import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 2**15 - 1


def is_exhausted(producer_epoch: int) -> bool:
    """One epoch stays in reserve: the coordinator must always be able to fence the last one."""
    return producer_epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """Times are wall milliseconds, -1 for none. ``partitions``: those that the transaction writes
    to, none after it.

    ``last_epoch`` is the epoch that ``producer_id`` had before, if a producer asked for the next
    one by naming it, so that its repeated question is known for that (KIP-360);
    ``last_producer_id`` likewise. Neither is in a record: a repetition over a change of coordinator
    is fenced.
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

    # -- what may become of it; whether it may now is the caller's to know

    def with_next_epoch(
        self, timeout_ms: int, now_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionFacts:
        """A producer begins, in the next epoch."""
        last_epoch = NO_EPOCH if expected is None else self.producer_epoch
        return self._begun(
            self.producer_id, self.producer_epoch + 1, last_epoch, timeout_ms, now_ms
        )

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, expected: ProducerIdAndEpoch | None
    ) -> TransactionFacts:
        """A producer begins, with a new id, as the epochs of the old one are used up."""
        last_epoch = NO_EPOCH if expected is None else self.producer_epoch
        return self._begun(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def repeated(self, timeout_ms: int, now_ms: int) -> TransactionFacts:
        """A producer asks again for what it has been given."""
        return self._begun(
            self.producer_id, self.producer_epoch, self.last_epoch, timeout_ms, now_ms
        )

    def _begun(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionFacts:
        return TransactionFacts(
            producer_id,
            epoch,
            timeout_ms,
            TransactionState.EMPTY,
            last_update_ms=now_ms,
            last_producer_id=self.producer_id,
            last_epoch=last_epoch,
        )

    def with_partitions(self, added: frozenset[TopicPartition], now_ms: int) -> TransactionFacts:
        ongoing = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions | added if ongoing else added,
            start_ms=self.start_ms if ongoing else now_ms,
            last_update_ms=now_ms,
        )

    def ended(self, committed: bool, now_ms: int) -> TransactionFacts:
        """It is decided: nothing can change the outcome any more."""
        state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        return replace(self, state=state, last_update_ms=now_ms)

    def fenced(self, now_ms: int) -> TransactionFacts:
        """It is aborted in the next epoch, so that its producer can write nothing more. In the last
        one there is nobody to fence: it is given to no producer."""
        aborted = self.ended(committed=False, now_ms=now_ms)
        epoch = min(self.producer_epoch + 1, MAX_EPOCH)
        return replace(aborted, producer_epoch=epoch, last_epoch=NO_EPOCH)

    def completed(self, now_ms: int) -> TransactionFacts:
        """All markers are written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        return replace(
            self,
            state=TransactionState.COMPLETE_COMMIT
            if committed
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
