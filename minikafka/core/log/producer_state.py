"""The idempotent producers of a log: their last batches, and checks of the next one.

Kafka: ``ProducerStateManager``, ``ProducerAppendInfo``, ``ProducerStateEntry``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.open_transactions import AbortedTxn, OpenTransactions
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import (
    CONTROL_FLAG,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    control_record,
    decode_end_txn_marker,
)
from minikafka.protocol.records.record import Record

BATCHES_RETAINED: Final = 5
NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
IN_FLIGHT: Final = BATCHES_RETAINED  # of a producer that needs its retries recognized
MAX_REFUSED: Final = 1_000
VERSION_WITH_EPOCHS: Final = 2  # of transactions: each has its own epoch


class BatchMetadata(NamedTuple):
    """An appended batch of a producer, kept to recognize a retry of it."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class RefusedBatch:
    """A batch that was in order, but could not be written. ``error`` is what the producer got for
    it, ``behind`` the number of batches behind it that may be in flight."""

    __slots__ = ("behind", "error", "producer_epoch", "sequence")

    def __init__(self, producer_epoch: int, sequence: int, error: ErrorCode) -> None:
        self.producer_epoch = producer_epoch
        self.sequence = sequence
        self.error = error
        self.behind = IN_FLIGHT - 1

    def precedes(self, batch: RecordBatch) -> bool:
        """Return whether ``batch`` was sent after this one, rather than before or instead."""
        distance = (batch.base_sequence - self.sequence) % (MAX_SEQUENCE + 1)
        return batch.producer_epoch == self.producer_epoch and 0 < distance <= MAX_SEQUENCE // 2


class ProducerEntry:
    """The state of one producer id: its epoch, its last five batches (oldest first), and the first
    offset of its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int = NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[BatchMetadata] = deque(batches, maxlen=BATCHES_RETAINED)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def enter_epoch(self, producer_epoch: int) -> None:
        """Set the epoch. If it is another one, forget the batches: each epoch has its own
        sequence numbers."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class ProducerStates:
    """The producers of one log, and their open ``transactions``.

    A producer is kept until it has not written for ``producer.id.expiration.ms``.
    ``_refused`` holds, by producer id, the last batch that the disk refused: see ``refuse``.
    ``_verifications`` holds, by producer id, the transactions whose first batch in this log waits
    for the response of the transaction coordinator (KIP-890)."""

    def __init__(self) -> None:
        self.transactions = OpenTransactions()
        self._entries: dict[int, ProducerEntry] = {}
        self._verifications: dict[int, Verification] = {}
        self._refused: dict[int, RefusedBatch] = {}  # bound: MAX_REFUSED

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def verification_of(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        now_ms: int,
        adds: bool = False,
    ) -> Verification | None:
        """Return the verification that must succeed before this transactional batch is appended.
        ``adds`` is as in ``Verification``.

        Batches of one producer share it. Returns None if the transaction is open in this log
        already, and for a former epoch, in which the batch is refused anyway."""
        entry = self._entries.get(producer_id)
        if entry is not None and (
            producer_epoch < entry.producer_epoch
            or (entry.current_txn_first_offset >= 0 and producer_epoch == entry.producer_epoch)
        ):
            return None
        known = self._verifications.get(producer_id)
        if known is None:
            known = Verification(producer_epoch, sequence, now_ms, adds)
            self._verifications[producer_id] = known
        else:
            known.also_waits(producer_epoch, sequence)
        return known

    def check(
        self,
        batch: RecordBatch,
        origin: AppendOrigin,
        guard: Verification | None = NOT_REQUIRED,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Check whether a batch of a producer may be appended.

        Returns None if it may. Returns the metadata of an earlier batch if this one is a retry of
        it; then the caller must not append it again. Only the last five batches of a producer are
        known.

        ``guard`` is the verification that the transaction coordinator has confirmed, None if there
        was none, NOT_REQUIRED if no verification is needed. ``transaction_version`` is that of a
        marker: since version 2 it has the epoch after its transaction's (KIP-1228). Raises
        KafkaError:

        - INVALID_PRODUCER_EPOCH: the log has a batch of a higher epoch of this producer, or the
          marker belongs to a transaction before the open one
        - OUT_OF_ORDER_SEQUENCE_NUMBER: a gap, or a retry of a batch that is no longer known
        - INVALID_TXN_STATE: a non-transactional batch within a transaction, or a batch that begins
          a transaction without verification
        - TRANSACTION_COORDINATOR_FENCED: a marker of a coordinator with a lower epoch
        - CORRUPT_MESSAGE: a control batch that cannot be decoded
        - the error of ``refuse``: a batch behind one that was refused
        """
        if self._refused and origin is AppendOrigin.CLIENT:
            self._check_refused(batch)
        ended = end_marker(batch) if batch.attributes & CONTROL_FLAG else None
        entry = self._entries.get(batch.producer_id)
        if guard is not NOT_REQUIRED and ended is None and batch.attributes & TRANSACTIONAL_FLAG:
            self._check_verified(entry, batch, origin, guard)
        if entry is None:
            return None
        if ended is not None and ended[1].coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {ended[1].coordinator_epoch} of a marker for producer "
                f"{entry.producer_id} is below {entry.coordinator_epoch}",
            )
        epoch = batch.producer_epoch
        if origin is AppendOrigin.CLIENT:
            first = batch.base_sequence
            if epoch == entry.producer_epoch:
                last = entry.last_sequence
                if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
                    return _duplicate_or_raise(entry, batch)
            elif first != 0 and epoch > entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {entry.producer_id} starts epoch {epoch} (after "
                    f"{entry.producer_epoch}) with sequence number {first}",
                )
        if epoch < entry.producer_epoch:
            raise _old_epoch(entry, epoch)
        if ended is not None and transaction_version >= VERSION_WITH_EPOCHS:
            _check_next_epoch(entry, epoch)
        if entry.current_txn_first_offset >= 0 and not batch.attributes & (
            TRANSACTIONAL_FLAG | CONTROL_FLAG
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"expected a transactional write from producer {entry.producer_id}",
            )
        return None

    def refuse(self, batch: RecordBatch, error: ErrorCode) -> None:
        """Note that a batch that ``check`` let pass was not appended, with a retriable ``error``.

        Batches of its producer that were sent behind it, before the response, get the same error
        until it is appended: four, since five may be in flight. In Kafka a disk that refuses one
        batch refuses all, since its log directory goes offline. Here the next batch may find room.
        Its sequence number is not the producer's fault: after OUT_OF_ORDER_SEQUENCE_NUMBER
        librdkafka raises its epoch and sends all that is not acknowledged again under new numbers,
        and what was appended elsewhere stands twice. And to a producer without an entry the log
        would append it in front of the refused one."""
        known = self._refused
        known.pop(batch.producer_id, None)
        if len(known) == MAX_REFUSED:
            del known[next(iter(known))]
        known[batch.producer_id] = RefusedBatch(batch.producer_epoch, batch.base_sequence, error)

    def _check_refused(self, batch: RecordBatch) -> None:
        refused = self._refused.get(batch.producer_id)
        if refused is None or not refused.precedes(batch):
            return
        if refused.behind == 0:
            del self._refused[batch.producer_id]
            return
        refused.behind -= 1
        raise KafkaError(
            refused.error,
            f"sequence number {batch.base_sequence} of producer {batch.producer_id} was sent "
            f"behind {refused.sequence}, which could not be written",
        )

    def _check_verified(
        self,
        entry: ProducerEntry | None,
        batch: RecordBatch,
        origin: AppendOrigin,
        guard: Verification | None,
    ) -> None:
        """Refuse a batch that begins a transaction in this log without a valid verification.

        The coordinator writes markers only to partitions that it knows, so it would never end such
        a transaction (KIP-890). A retry of an appended batch passes. ``guard`` is the verification
        that the coordinator confirmed; an append or a marker since then has made it invalid."""
        if (
            entry is not None
            and entry.current_txn_first_offset >= 0
            and batch.producer_epoch == entry.producer_epoch
        ):
            return
        if entry is not None and batch.producer_epoch < entry.producer_epoch:
            raise _old_epoch(entry, batch.producer_epoch)
        if (
            origin is AppendOrigin.CLIENT
            and entry is not None
            and batch.producer_epoch == entry.producer_epoch
            and _duplicate(entry, batch) is not None
        ):
            return
        verification = self._verifications.get(batch.producer_id)
        if verification is None or guard is not verification:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, "the record was not part of an ongoing transaction"
            )
        if (
            verification.adds
            and origin is AppendOrigin.CLIENT
            and batch.base_sequence != 0
            and (entry is None or not entry.batches)
        ):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"the transaction of producer {batch.producer_id} begins with sequence number "
                f"{batch.base_sequence}, not with 0",
            )
        if batch.base_sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence number {batch.base_sequence} of producer {batch.producer_id} was sent "
                f"before {verification.lowest_sequence}, whose verification is not complete",
            )

    def update(
        self, batch: RecordBatch, first_offset: int, max_timestamp: int
    ) -> AbortedTxn | None:
        """Update the state with a batch that has been appended at ``first_offset``.

        The base offset in the header of ``batch`` is ignored. ``max_timestamp`` is in ms. A control
        batch must have its records, other batches need only the header. Returns the transaction
        that ``batch`` aborts if it is an ABORT marker, else None. Raises CorruptRecordError.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_id)
        if self._verifications:
            self._end_verification(batch)
        if self._refused:
            self._refused.pop(batch.producer_id, None)
        if batch.attributes & CONTROL_FLAG:
            return self._end_transaction(entry, batch, first_offset)
        if batch.producer_epoch != entry.producer_epoch:
            entry.enter_epoch(batch.producer_epoch)
        delta = batch.last_offset_delta
        first = batch.base_sequence
        if first + delta <= MAX_SEQUENCE and first != NO_SEQUENCE:
            last = first + delta
        else:
            last = batch.last_sequence
        entry.batches.append(BatchMetadata(first, last, first_offset + delta, delta, max_timestamp))
        entry.last_timestamp = max_timestamp
        if batch.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = first_offset
            self.transactions.begin(first_offset)
        return None

    def _end_verification(self, batch: RecordBatch) -> None:
        """Make the producer's verification invalid, unless ``batch`` is the marker of a transaction
        of version 2 before: the producer, who knows the next epoch already, may wait for that."""
        known = self._verifications.get(batch.producer_id)
        if known is not None and not (
            known.adds
            and batch.attributes & CONTROL_FLAG
            and batch.producer_epoch == known.producer_epoch
        ):
            del self._verifications[batch.producer_id]

    def _end_transaction(
        self, entry: ProducerEntry, batch: RecordBatch, marker_offset: int
    ) -> AbortedTxn | None:
        """End the open transaction of a producer, if there is one, with the marker in ``batch``.

        The marker may have a higher epoch than the producer's batches, which fences the producer.
        """
        ended = end_marker(batch)
        if ended is None:
            return None
        record, marker = ended
        aborted = None
        if entry.current_txn_first_offset >= 0:
            begun = entry.current_txn_first_offset
            self.transactions.end(begun, marker_offset)
            if marker.type is ControlRecordType.ABORT:
                ongoing = self.transactions.first_ongoing
                stable = marker_offset + 1 if ongoing is None else ongoing
                aborted = AbortedTxn(entry.producer_id, begun, marker_offset, stable)
        entry.enter_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = NO_OFFSET
        entry.last_timestamp = record.timestamp
        return aborted

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace all producers, and their open transactions, by those of a snapshot."""
        self._entries = {entry.producer_id: entry for entry in entries}
        offsets = (entry.current_txn_first_offset for entry in self._entries.values())
        self.transactions.load(offset for offset in offsets if offset >= 0)

    def take_over(self, other: ProducerStates) -> None:
        """Take over the state of ``other``, which is discarded."""
        self._entries = other._entries
        self.transactions.take_over(other.transactions)

    def take_over_verifications(self, other: ProducerStates) -> None:
        """Take over the verifications of ``other``, which is discarded, for the same producers."""
        self._verifications = other._verifications

    def clear(self) -> None:
        self.load(())

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers without an open transaction that have not written for
        ``expiration_ms``, and verifications that are as old."""
        self._entries = {
            producer_id: entry
            for producer_id, entry in self._entries.items()
            if entry.current_txn_first_offset >= 0 or now_ms - entry.last_timestamp < expiration_ms
        }
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if now_ms - verification.started_ms < expiration_ms
        }
        self._refused.clear()


def end_marker(batch: RecordBatch) -> tuple[Record, EndTxnMarker] | None:
    """Decode the transaction marker in a control batch: the record, and its content.

    Returns None for control records of other types. Raises CorruptRecordError; call this before
    the batch is appended."""
    record = control_record(batch)
    marker = None if record is None else decode_end_txn_marker(record)
    return None if record is None or marker is None else (record, marker)


def _check_next_epoch(entry: ProducerEntry, epoch: int) -> None:
    """Refuse a marker in the epoch of the open transaction: it ended the one before, in which it
    was the next epoch."""
    if epoch == entry.producer_epoch and entry.current_txn_first_offset >= 0:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"a marker for producer {entry.producer_id} has the epoch {epoch} of the open "
            "transaction, not the next one",
        )


def _old_epoch(entry: ProducerEntry, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"epoch {epoch} of producer {entry.producer_id} is smaller than the last seen "
        f"epoch {entry.producer_epoch}",
    )


def _duplicate(entry: ProducerEntry, batch: RecordBatch) -> BatchMetadata | None:
    first, last = batch.base_sequence, batch.last_sequence
    for known in entry.batches:
        if known.first_sequence == first and known.last_sequence == last:
            return known
    return None


def _duplicate_or_raise(entry: ProducerEntry, batch: RecordBatch) -> BatchMetadata:
    known = _duplicate(entry, batch)
    if known is not None:
        return known
    raise KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"out of order sequence number for producer {entry.producer_id}: {batch.base_sequence} "
        f"(incoming), {entry.last_sequence} (current end)",
    )


def first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Return the sequence number ``offset_delta`` before ``last_sequence``.

    Sequence numbers continue at 0 after 2**31 - 1."""
    if last_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    if last_sequence >= offset_delta:
        return last_sequence - offset_delta
    return MAX_SEQUENCE - (offset_delta - last_sequence) + 1
