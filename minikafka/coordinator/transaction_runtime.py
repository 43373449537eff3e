"""Carries out what a shard of transactions decides: log lines, answers, markers, appends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from minikafka.coordinator.loader import Loader
from minikafka.coordinator.ports import InternalLog
from minikafka.core.transaction.config import TransactionConfig
from minikafka.core.transaction.records import TransactionStored, encode_record
from minikafka.core.transaction.result import CoordinatorResult, Markers, Write
from minikafka.core.transaction.shard import TransactionShard
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.protocol.codec import EncodeError
from minikafka.protocol.records.builder import build_batch

RETRY_MS = 100


class Surroundings(Protocol):
    """What the runtimes of all partitions share."""

    clock: Clock
    log: InternalLog
    loader: Loader[TransactionStored]
    events: EventLog

    @property
    def transaction_config(self) -> TransactionConfig: ...

    def send_markers(self, runtime: TransactionRuntime, markers: Markers) -> None: ...


class TransactionRuntime:
    """One partition of ``__transaction_state``, coordinated here since ``epoch``.

    Everything runs in the breath of whoever calls; an append that is replicated at once (a single
    replica) is settled before the call returns. A ticket is the callable that takes the answer.
    """

    def __init__(self, partition: int, epoch: int, around: Surroundings) -> None:
        self.partition = partition
        self.epoch = epoch
        self.shard = TransactionShard(around.transaction_config)
        self.loading = True
        self._around = around
        self._events = around.events.bind(partition=partition)

    # -- leadership

    @property
    def size(self) -> int:
        return len(self.shard.transactions)

    async def load(self, is_wanted: Callable[[], bool]) -> bool:
        """The end of the log is what another coordinator wrote and nobody may have been told of:
        it counts once no leader after this one can be without it. (In Kafka markers go out at once,
        and the next leader may decide otherwise.)"""
        around = self._around
        whole = await around.loader.load(self.partition, self.shard, is_wanted)
        return whole and await around.log.replicated(self.partition)

    def loaded(self) -> None:
        self.run(self.shard.loaded(self._now_ms()))

    def unloaded(self) -> None:
        self.run(self.shard.unloaded(self._now_ms()))

    # -- requests

    def run(self, result: CoordinatorResult) -> None:
        for note in result.notes:
            getattr(self._events, note.level)(note.event, **note.facts)
        for ticket, answer in result.replies:
            ticket(answer)
        for markers in result.markers:
            self._around.send_markers(self, markers)
        for write in result.writes:
            self._write(write)
        for write in result.retries:
            self._write_later(write)

    def markers_written(self, markers: Markers, partitions: Iterable[TopicPartition]) -> None:
        self.run(self.shard.markers_written(markers, partitions, self._now_ms()))

    def _now_ms(self) -> int:
        return self._around.clock.wall_ms()

    # -- the log

    def _write_later(self, write: Write) -> None:
        def again() -> None:
            if not self.shard.is_closed:
                self._write(write)

        self._around.clock.call_later(RETRY_MS, again)

    def _write(self, write: Write) -> None:
        def done(error: ErrorCode, base_offset: int) -> None:
            if error is not ErrorCode.NONE:
                self._events.warning(
                    "write_failed",
                    transactional_ids=[record.transactional_id for record in write.records[:3]],
                    purpose=type(write.then).__name__,
                    error=error.name,
                )
            self.run(self.shard.settle(write, error, self._now_ms()))

        now_ms = self._now_ms()
        try:
            batch = build_batch([(now_ms, *encode_record(record), ()) for record in write.records])
        except EncodeError:  # an id that no record can hold
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        self._around.log.append(self.partition, batch, True, done)
