"""Records out of fetched bytes: whole batches in, what a consumer may see out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    iterate_batches,
)
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import Header, decode_batch


class ConsumerRecord(NamedTuple):
    """One record as an application gets it. ``timestamp`` is milliseconds since 1970, or -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    leader_epoch: int


class AbortedTransactions:
    """Which producers are inside an aborted transaction, while batches are read in order.

    Built from the pairs (producer id, first offset) that a read-committed fetch returns.
    """

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._pending = sorted(((first, producer) for producer, first in pairs), reverse=True)
        self._aborted: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Whether the batch is an aborted one. Call once per batch, in offset order."""
        while self._pending and self._pending[-1][0] <= batch.last_offset:
            self._aborted.add(self._pending.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborted and _is_abort(batch):
                self._aborted.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborted


def _is_abort(batch: RecordBatch) -> bool:
    markers = (decode_end_txn_marker(record) for record in decode_batch(batch))
    return any(marker is not None and marker.type is ControlRecordType.ABORT for marker in markers)


def fetched_records(
    topic_partition: TopicPartition,
    data: Buffer,
    position: int,
    aborted: Iterable[tuple[int, int]] = (),
    check_crcs: bool = True,
) -> tuple[list[ConsumerRecord], int]:
    """The records from offset ``position`` on, and the position after the last whole batch.

    Drops what lies before ``position`` (a fetch returns whole batches), control records, and the
    aborted transactions named. The position moves on over batches that show nothing. Raises
    CorruptRecordError (a KafkaError) for bytes that are no batches or fail their CRC.
    """
    topic, partition = topic_partition
    records: list[ConsumerRecord] = []
    transactions = AbortedTransactions(aborted)
    next_position = position
    for batch in iterate_batches(data):
        if check_crcs and not crc_is_valid(batch):
            raise CorruptRecordError(
                f"{topic_partition}: the batch at offset {batch.base_offset} fails its CRC"
            )
        hidden = transactions.hides(batch)
        next_position = max(next_position, batch.next_offset)
        if hidden or batch.last_offset < position:
            continue
        epoch = batch.partition_leader_epoch
        records.extend(
            ConsumerRecord(topic, partition, *record, epoch)
            for record in decode_batch(batch)
            if record.offset >= position
        )
    return records, next_position
