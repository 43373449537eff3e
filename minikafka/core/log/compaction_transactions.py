"""Decide which batches of transactions survive the compaction of a log.

Kafka: ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.protocol.records.batch import RecordBatch
from minikafka.protocol.records.control import (
    ControlRecordType,
    control_record,
    decode_end_txn_marker,
)


class CleanedTransactions:
    """Tracks the transactions of a log during one pass over its batches, in order.

    Records of aborted transactions are removed, whatever their keys. A marker may be removed if no
    batch of its transaction remains. ``retained`` lists the aborted transactions whose markers
    remain. The caller adds them to the transaction index of the cleaned segment and clears the
    list.
    """

    def __init__(self) -> None:
        self.retained: list[AbortedTxn] = []
        self._coming: list[tuple[int, int, AbortedTxn]] = []  # a heap by first offset
        # By producer id: the transaction, and whether a batch of it was found.
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self._committed: set[int] = set()  # producer ids with a batch in the current transaction

    def expect(self, txns: Iterable[AbortedTxn]) -> None:
        """Add the aborted transactions with records in the next segment."""
        for txn in txns:
            heappush(self._coming, (txn.first_offset, txn.last_offset, txn))

    def takes_away(self, batch: RecordBatch) -> bool:
        """Return True if the batch is of an aborted transaction, or a marker without batches.

        Raises CorruptRecordError."""
        self._reach(batch.last_offset)
        if batch.is_control:
            return self._marker_goes(batch)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = (aborted[0], True)
        return True

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            txn = heappop(self._coming)[2]
            self._aborted.setdefault(txn.producer_id, (txn, False))

    def _marker_goes(self, batch: RecordBatch) -> bool:
        record = control_record(batch)
        if record is None:
            return True  # emptied by an earlier cleaning
        marker = decode_end_txn_marker(record)
        if marker is None:
            return False
        if marker.type is ControlRecordType.COMMIT:
            if batch.producer_id in self._committed:
                self._committed.remove(batch.producer_id)
                return False
            return True
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None or not aborted[1]:
            return True
        self.retained.append(aborted[0])
        return False
