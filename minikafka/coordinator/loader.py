"""Reading a partition of an internal topic into its shard, when this broker leads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from minikafka.coordinator.ports import InternalLog
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Buffer, Clock
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    iterate_batches,
)
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import Record, decode_batch

RECORDS_IN_ONE_BREATH = 500
RETRY_MS = 1_000


R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class ReplayingShard(Protocol[R_contra]):
    """A replicated shard, as far as its log goes in."""

    def replay(self, record: R_contra, offset: int, producer_id: int | None) -> None: ...

    def replay_end_of_transaction(self, producer_id: int, offset: int, committed: bool) -> None: ...


class Loader(Generic[R]):
    """Kafka's ``doLoadGroupsAndOffsets`` and ``loadTransactionMetadata``. Others are served between
    every few hundred records. ``decode``: key and value to a record, None for one of a kind that is
    not known; it raises DecodeError.

    What is damaged, or nobody can read, must not keep all others from being served: it is logged
    and passed over. (Kafka passes over all that comes after it, too.)
    """

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        load_buffer_size: int,
        decode: Callable[[bytes, bytes | None], R | None],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._log = log
        self._load_buffer_size = load_buffer_size
        self._decode = decode
        self._events = events

    async def load(
        self, partition: int, shard: ReplayingShard[R], is_wanted: Callable[[], bool]
    ) -> bool:
        """To the end of the log as it is when it gets there. False: the partition is not led here
        any more, or ``is_wanted`` says no.

        A disk that fails takes the partition away, sooner or later; until then it is tried again.
        """
        events = self._events.bind(partition=partition)
        replay = _Replay(shard, self._decode, self._clock, events)
        offset = 0
        while is_wanted():
            bounds = self._log.bounds(partition)
            if bounds is None:
                return False
            start, end = bounds
            offset = max(start, offset)
            if offset >= end:
                await replay.settle()
                return is_wanted()
            try:
                data = await self._log.read(partition, offset, self._load_buffer_size)
            except (KafkaError, OSError) as error:
                if not _is_damage(error):
                    events.error("loading_failed", error=repr(error))
                    await self._clock.sleep(RETRY_MS)
                    continue
                data = None
            before = offset
            offset = await replay.take_all(data or b"", offset)
            if offset == before:  # where the next batch begins, if there is one, nobody knows
                if data is None or data:
                    events.error("log_damaged", unread_from=offset, unread_to=end)
                await replay.settle()
                return is_wanted()
        return False


def _is_damage(error: KafkaError | OSError) -> bool:
    """It will be there the next time, too."""
    return isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE


class _Replay(Generic[R]):
    """One log on its way into one shard. Of records outside of transactions the last one of a key
    counts, as after compaction: those before it are not even decoded."""

    def __init__(
        self,
        shard: ReplayingShard[R],
        decode: Callable[[bytes, bytes | None], R | None],
        clock: Clock,
        events: EventLog,
    ) -> None:
        self._shard = shard
        self._decode = decode
        self._clock = clock
        self._events = events
        # By key: value, offset, and that of the first record of the batch.
        self._latest: dict[bytes, tuple[bytes | None, int, int]] = {}
        self._in_this_breath = 0

    async def take_all(self, data: Buffer, offset: int) -> int:
        """The batches in ``data`` from ``offset`` on. Returns the offset after the last one that
        could be found; those that cannot be read count as found, but where they say they end counts
        only if nothing comes after them."""
        next_offset = offset
        try:
            for batch in iterate_batches(data):
                if batch.last_offset < offset:
                    continue
                try:
                    await self._take(batch)
                except KafkaError as error:
                    self._events.error(
                        "batch_unreadable", offset=batch.base_offset, error=repr(error)
                    )
                else:
                    offset = batch.next_offset
                next_offset = batch.next_offset
        except KafkaError as error:
            self._events.error("no_batch", after_offset=offset, error=repr(error))
        return max(offset, next_offset)

    async def settle(self) -> None:
        """Let the shard have what was put off."""
        latest, self._latest = self._latest, {}
        for key, (value, offset, base_offset) in latest.items():
            self._replay(key, value, offset, base_offset, None)
            if self._is_long_breath():
                await self._clock.sleep(0)

    async def _take(self, batch: RecordBatch) -> None:
        """Raises KafkaError when it is damaged."""
        if not crc_is_valid(batch):
            raise CorruptRecordError(f"the batch at offset {batch.base_offset} has a wrong CRC")
        if not batch.is_control and not batch.is_transactional:
            latest, base_offset = self._latest, batch.base_offset
            for record in decode_batch(batch):
                key = record.key or b""
                latest.pop(key, None)  # it goes to the end, as in the log
                latest[key] = (record.value, record.offset, base_offset)
                if self._is_long_breath():
                    await self._clock.sleep(0)
            return
        await self.settle()  # the order of these and those matters
        for record in decode_batch(batch):
            if batch.is_control:
                self._end_transaction(batch, record)
            else:
                key, offset = record.key or b"", record.offset
                self._replay(key, record.value, offset, batch.base_offset, batch.producer_id)
            if self._is_long_breath():
                await self._clock.sleep(0)

    def _end_transaction(self, batch: RecordBatch, record: Record) -> None:
        marker = decode_end_txn_marker(record)
        if marker is not None:
            committed = marker.type is ControlRecordType.COMMIT
            self._shard.replay_end_of_transaction(batch.producer_id, batch.base_offset, committed)

    def _replay(
        self,
        key: bytes,
        value: bytes | None,
        offset: int,
        base_offset: int,
        producer_id: int | None,
    ) -> None:
        try:
            decoded = self._decode(key, value)
        except DecodeError as error:
            self._events.warning("record_unreadable", offset=offset, error=str(error))
            return
        if decoded is None:
            self._events.warning("record_of_unknown_kind", offset=offset)
            return
        self._shard.replay(decoded, base_offset, producer_id)

    def _is_long_breath(self) -> bool:
        """Whether others are to be served now; counts one record."""
        self._in_this_breath = (self._in_this_breath + 1) % RECORDS_IN_ONE_BREATH
        return not self._in_this_breath
