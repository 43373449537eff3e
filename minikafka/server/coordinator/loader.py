"""Loads a coordinator shard from the log of its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from minikafka.core.coordinator_shard import CoordinatorShard
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Buffer, Clock
from minikafka.kernel.slices import Slices
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    iterate_batches,
)
from minikafka.protocol.records.control import (
    ControlRecordType,
    control_record,
    decode_end_txn_marker,
)
from minikafka.protocol.records.record import Record
from minikafka.protocol.records.record_layout import Want, compile_walk
from minikafka.server.coordinator.ports import InternalLog

READ_RETRY_MS = 1_000

R = TypeVar("R")

# (offset delta, key, value)
_KeyAndValue: TypeAlias = tuple[int, bytes | None, bytes | None]

# Headers are not parsed: one record may have millions.
_find_records: Callable[[bytes, int, int], Iterator[_KeyAndValue]] = compile_walk(
    "find_keys_and_values",
    "data, count, last_offset_delta",
    {"offset_delta": Want.SIGNED, "key": Want.CONTENT, "value": Want.CONTENT},
    before="previous = -1",
    each="""
        if not previous < offset_delta <= last_offset_delta:
            malformed()
        previous = offset_delta
        yield offset_delta, key, value
    """,
)


class CoordinatorLoader:
    """Replays the log of a partition into a shard (Kafka's ``CoordinatorLoader``).

    It works in slices and serves other requests in between.

    A damaged batch or unreadable record must not keep the rest of the partition from being
    served: it is logged and skipped. (Kafka also skips everything behind it.)
    """

    def __init__(
        self, clock: Clock, log: InternalLog, load_buffer_size: int, events: EventLog
    ) -> None:
        self._clock = clock
        self._log = log
        self._load_buffer_size = load_buffer_size
        self._events = events

    async def load(
        self,
        partition: int,
        shard: CoordinatorShard[Any, Any, Any],
        is_current: Callable[[], bool],
    ) -> bool:
        """Replay the log up to its end, which may move in the meantime.

        Returns False if this broker no longer leads the partition, or ``is_current`` returns
        False. Failed reads are retried: a failed disk eventually takes the partition offline.
        """
        events = self._events.bind(partition=partition)
        replay = _Replay(shard, self._log, events)
        offset = 0
        while is_current():
            bounds = self._log.bounds(partition)
            if bounds is None:
                return False
            start, end = bounds
            offset = max(start, offset)
            if offset >= end:
                await replay.flush()
                return is_current()
            try:
                data = await self._log.read(partition, offset, self._load_buffer_size)
            except (KafkaError, OSError) as error:
                if not _is_damage(error):
                    events.error("loading_failed", error=repr(error))
                    await self._clock.sleep(READ_RETRY_MS)
                    continue
                data = None
            before = offset
            offset = await replay.add_batches(data or b"", offset)
            if offset == before:  # there is no next batch, or its position is unknown
                if data is None or data:
                    events.error("log_damaged", unread_from=offset, unread_to=end)
                await replay.flush()
                return is_current()
        return False


def _is_damage(error: KafkaError | OSError) -> bool:
    """Whether the error comes from the data, so that the next read would fail in the same way."""
    return isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE


class _Replay(Generic[R]):
    """The replay of one log into one shard.

    Of the non-transactional records with the same key only the last one has an effect, as after
    compaction, unless the shard ``keeps_all_records``. They are collected in ``_latest`` and
    decoded in ``flush``: before a transactional batch or a marker, and at the end of the log.
    """

    def __init__(
        self,
        shard: CoordinatorShard[R, Any, Any],
        log: InternalLog,
        events: EventLog,
    ) -> None:
        self._shard = shard
        self._log = log
        self._events = events
        # By key: value, offset of the record, base offset of its batch; in the order of the log.
        self._latest: dict[bytes, tuple[bytes | None, int, int]] = {}
        self._next_offset = 0  # after the last batch that was added
        self._replayed_offset = -1  # of the last record or marker that was replayed
        self._slices = Slices()

    async def add_batches(self, data: Buffer, offset: int) -> int:
        """Replay the batches in ``data`` from ``offset`` on; return the offset after the last
        one.

        The end of an unreadable batch counts only if no readable one follows.
        """
        next_offset = offset
        try:
            for batch in iterate_batches(data):
                if batch.last_offset < offset:
                    continue
                try:
                    await self._add(batch)
                except KafkaError as error:
                    self._events.error("batch_skipped", offset=batch.base_offset, error=repr(error))
                else:
                    offset = batch.next_offset
                next_offset = batch.next_offset
        except KafkaError as error:
            self._events.error("batch_not_found", after_offset=offset, error=repr(error))
        return max(offset, next_offset)

    async def flush(self) -> None:
        """Replay the collected records."""
        latest, self._latest = self._latest, {}
        for key, (value, offset, base_offset) in latest.items():
            self._replay(key, value, offset, base_offset, None)
            if self._slices.ended():
                await self._slices.pause()

    async def _add(self, batch: RecordBatch) -> None:
        """Replay one batch. Raises KafkaError if it is damaged. The CRC does not cover the base
        offset."""
        if not crc_is_valid(batch):
            raise CorruptRecordError(f"the batch at offset {batch.base_offset} has a wrong CRC")
        if batch.base_offset < self._next_offset:
            raise CorruptRecordError(f"two batches have the offset {batch.base_offset}")
        self._next_offset = batch.next_offset
        if not (batch.is_control or batch.is_transactional or self._shard.keeps_all_records):
            latest, base_offset = self._latest, batch.base_offset
            for delta, key, value in await self._records_of(batch):
                latest.pop(key or b"", None)  # so that it moves to the end, as in the log
                latest[key or b""] = (value, base_offset + delta, base_offset)
                if self._slices.ended():
                    await self._slices.pause()
            return
        await self.flush()  # transactional records and markers keep their place among the others
        if batch.is_control:
            marker = control_record(batch)
            if marker is not None:
                self._replay_marker(batch, marker)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for delta, key, value in await self._records_of(batch):
            offset = batch.base_offset + delta
            self._replay(key or b"", value, offset, batch.base_offset, producer_id)
            if self._slices.ended():
                await self._slices.pause()

    async def _records_of(self, batch: RecordBatch) -> Iterator[_KeyAndValue]:
        data = await self._log.opened(batch)
        return _find_records(data, batch.record_count, batch.last_offset_delta)

    def _replay_marker(self, batch: RecordBatch, record: Record) -> None:
        self._advance(record.offset)
        marker = decode_end_txn_marker(record)
        if marker is not None:
            committed = marker.type is ControlRecordType.COMMIT
            self._shard.replay_end_transaction_marker(
                batch.producer_id, batch.base_offset, committed
            )

    def _replay(
        self,
        key: bytes,
        value: bytes | None,
        offset: int,
        base_offset: int,
        producer_id: int | None,
    ) -> None:
        self._advance(offset)
        try:
            decoded = self._shard.decode(key, value)
        except DecodeError as error:
            self._events.warning("malformed_record_skipped", offset=offset, error=str(error))
            return
        if decoded is None:
            self._events.warning("unknown_record_skipped", offset=offset)
            return
        self._shard.replay(decoded, base_offset, producer_id)

    def _advance(self, offset: int) -> None:
        """Check that the shard receives records in the order of the log."""
        assert offset > self._replayed_offset, f"offset {offset} after {self._replayed_offset}"
        self._replayed_offset = offset
