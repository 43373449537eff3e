"""The decoding of a batch into ConsumerRecords, in one compiled loop: the consumer's hottest
code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.record import Header
from minikafka.protocol.records.record_layout import Want, compile_walk


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


class _Columns(NamedTuple):
    """The fields of a batch's records, as a list for each field; offsets and timestamps are
    deltas."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Sequence[Header]]


def _columns(with_offsets: bool) -> Callable[[bytes, int, _Columns], None]:
    """Compile the loop that appends every record's fields to the columns.

    A record without headers gets (), which the garbage collector does not track.
    """
    into = {
        "offset_delta": "add_offset",
        "timestamp_delta": "add_timestamp",
        "key": "add_key",
        "value": "add_value",
        "headers": "add_headers",
    }
    wanted = {
        "timestamp_delta": Want.SIGNED,
        "key": Want.CONTENT,
        "value": Want.CONTENT,
        "headers": Want.CONTENT,
    }
    if with_offsets:
        wanted["offset_delta"] = Want.SIGNED
    return compile_walk(
        "consumer_records" if with_offsets else "consumer_records of a dense batch",
        "data, count, columns",
        wanted,
        into=into,
        before=f"{', '.join(into.values())} = [column.append for column in columns]",
    )


_read_columns: Final = _columns(with_offsets=True)
_read_dense_columns: Final = _columns(with_offsets=False)


def consumer_records(
    topic_partition: TopicPartition, batch: RecordBatch, start: int = 0
) -> list[ConsumerRecord]:
    """Decode the records of a batch with offset ``start`` or later.

    This takes half the time of ``decode_batch``. Raises CorruptRecordError for malformed bytes.
    """
    data, count = batch.plain_records(), batch.record_count
    columns = _Columns([], [], [], [], [])
    try:
        if batch.last_offset_delta == count - 1:
            _read_dense_columns(data, count, columns)
            offsets: Iterable[int] = range(batch.base_offset, batch.base_offset + count)
        else:
            _read_columns(data, count, columns)
            offsets = [batch.base_offset + delta for delta in columns.offsets]
    except CorruptRecordError as error:
        where = f"{topic_partition}: batch at offset {batch.base_offset}"
        raise CorruptRecordError(f"{where}: {error.message}") from error
    timestamps: Iterable[int] = [batch.base_timestamp + delta for delta in columns.timestamps]
    if batch.timestamp_type_log_append:
        timestamps = repeat(batch.max_timestamp)
    rows = zip(
        repeat(topic_partition.topic),
        repeat(topic_partition.partition),
        offsets,
        timestamps,
        columns.keys,
        columns.values,
        columns.headers,
        repeat(batch.partition_leader_epoch),
        strict=False,
    )
    records: list[ConsumerRecord] = list(map(_as_records, rows))
    return records if batch.base_offset >= start else [r for r in records if r.offset >= start]
