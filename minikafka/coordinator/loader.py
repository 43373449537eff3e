"""Reading a partition of an internal topic into its shard, when this broker leads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from minikafka.coordinator.ports import InternalLog
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.records.batch import RecordBatch, iterate_batches
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import decode_batch

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
    not known; it raises DecodeError."""

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
        offset: int | None = None
        while is_wanted():
            try:
                bounds = self._log.bounds(partition)
                if bounds is None:
                    return False
                start, end = bounds
                offset = start if offset is None else offset
                if offset >= end:
                    return True
                data = await self._log.read(partition, offset, self._load_buffer_size)
                before = offset
                for batch in iterate_batches(data):
                    if batch.last_offset < offset:
                        continue
                    await self._replay(shard, batch)
                    offset = batch.last_offset + 1
                if offset == before:
                    return True  # nothing left to read
            except (KafkaError, OSError) as error:
                self._events.error("loading_failed", partition=partition, error=repr(error))
                await self._clock.sleep(RETRY_MS)
        return False

    async def _replay(self, shard: ReplayingShard[R], batch: RecordBatch) -> None:
        if batch.is_control:
            for record in decode_batch(batch):
                marker = decode_end_txn_marker(record)
                if marker is not None:
                    committed = marker.type is ControlRecordType.COMMIT
                    offset = batch.base_offset
                    shard.replay_end_of_transaction(batch.producer_id, offset, committed)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for count, record in enumerate(decode_batch(batch)):
            if count % RECORDS_IN_ONE_BREATH == 0:
                await self._clock.sleep(0)
            try:
                decoded = self._decode(record.key or b"", record.value)
            except DecodeError as error:
                # Somebody else's: it must not keep all others from being served.
                self._events.warning("record_unreadable", offset=record.offset, error=str(error))
                continue
            if decoded is None:
                self._events.warning("record_of_unknown_kind", offset=record.offset)
                continue
            shard.replay(decoded, batch.base_offset, producer_id)
