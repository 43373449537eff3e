"""The records of a fetched batch: kept by fields, made into ConsumerRecords when they are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, overload

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.record import Header
from minikafka.protocol.records.record_columns import read_columns


class ConsumerRecord(NamedTuple):
    """A record as an application receives it.

    ``timestamp`` is milliseconds since 1970, or -1; ``headers`` are pairs of name and value.
    ``key`` and ``value`` are bytes or None, or the results of the application's deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int


_as_records = partial(tuple.__new__, ConsumerRecord)


class ConsumerRecords(Sequence[ConsumerRecord]):
    """Records of one batch, in the order of offsets. ``keys`` and ``values`` are bytes or None.

    Each reading makes new ``ConsumerRecord`` objects; ``values`` and its like make none.
    """

    __slots__ = (
        "_deltas",
        "_times",
        "headers",
        "keys",
        "leader_epoch",
        "offsets",
        "topic_partition",
        "values",
    )

    def __init__(
        self, topic_partition: TopicPartition, batch: RecordBatch, start: int, end: int
    ) -> None:
        """Decode the records with ``start <= offset < end``. Raises CorruptRecordError."""
        count, base = batch.record_count, batch.base_offset
        is_dense = batch.last_offset_delta == count - 1
        try:
            deltas, times, keys, values, headers = read_columns(
                batch.plain_records(), count, not is_dense
            )
        except CorruptRecordError as error:
            where = f"{topic_partition}: batch at offset {base}"
            raise CorruptRecordError(f"{where}: {error.message}") from error
        offsets: Sequence[int] = range(base, base + count)
        if not is_dense:
            offsets = [base + delta for delta in deltas]
        rows = slice(None)
        if base < start or end < batch.next_offset:
            rows = slice(bisect_left(offsets, start), bisect_left(offsets, end))
        self.topic_partition = topic_partition
        self.leader_epoch = batch.partition_leader_epoch
        self.offsets = offsets[rows]
        self.keys: list[bytes | None] = keys[rows]
        self.values: list[bytes | None] = values[rows]
        self.headers: list[Sequence[Header]] = headers[rows]
        self._deltas = times[rows]
        self._times = (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type_log_append)

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def timestamps(self) -> list[int]:
        """Milliseconds since 1970, or -1."""
        first, latest, is_append_time = self._times
        if is_append_time:
            return [latest] * len(self._deltas)
        return [first + delta for delta in self._deltas]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        topic, partition = self.topic_partition
        rows = zip(
            repeat(topic),
            repeat(partition),
            self.offsets,
            self.timestamps,
            self.keys,
            self.values,
            self.headers,
            repeat(self.leader_epoch),
            strict=False,
        )
        return map(_as_records, rows)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...

    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        return list(self)[index]


def consumer_records(
    topic_partition: TopicPartition, batch: RecordBatch, start: int = 0
) -> list[ConsumerRecord]:
    """Decode the records of a batch with offset ``start`` or later. Raises CorruptRecordError for
    malformed bytes."""
    return list(ConsumerRecords(topic_partition, batch, start, batch.next_offset))
