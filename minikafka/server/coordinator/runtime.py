"""The coordinator runtime: loads, serves and unloads the shards of one internal topic.

``CoordinatorRuntime`` holds a ``CoordinatorContext`` for each partition of the topic that this
broker leads. A context is LOADING while its log is replayed, then ACTIVE, and CLOSED after another
broker has become the leader. Kafka: ``CoordinatorRuntime``, ``CoordinatorContext``.

Coordinators call ``require`` for the context of a group or a transactional id, then a method of its
shard, and pass what that returns to ``CoordinatorContext.run``. Everything runs synchronously: when
an append is replicated at once (a single replica), it is settled before ``run`` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any, Generic, TypeVar

from minikafka.core.coordinator_shard import (
    AppendPurpose,
    CoordinatorAppend,
    CoordinatorResult,
    CoordinatorShard,
    partition_for,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.protocol.codec import EncodeError
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.server.coordinator.loader import CoordinatorLoader
from minikafka.server.coordinator.ports import InternalLog

APPEND_RETRY_MS = 100

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P", bound=AppendPurpose)
E = TypeVar("E")
S = TypeVar("S", bound=CoordinatorShard[Any, Any, Any])


class CoordinatorState(Enum):
    LOADING = "Loading"
    ACTIVE = "Active"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """The settings of a runtime.

    ``plural`` names the contents of shards in the event log. ``load_buffer_size`` is in bytes.
    ``compression`` is the codec of appended batches.
    """

    plural: str
    load_buffer_size: int
    compression: Compression = Compression.NONE


class CoordinatorContext(Generic[S, R, P, E]):
    """A partition that this broker coordinates: its shard, its state and its leader epoch."""

    def __init__(
        self,
        partition: int,
        epoch: int,
        shard: S,
        clock: Clock,
        log: InternalLog,
        compression: Compression,
        perform: Callable[[CoordinatorContext[S, R, P, E], E], None],
        events: EventLog,
    ) -> None:
        self.partition = partition
        self.shard = shard
        self.state = CoordinatorState.LOADING
        self._epoch = epoch
        self._clock = clock
        self._log = log
        self._compression = compression
        self._perform = perform
        self._events = events.bind(partition=partition)

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def is_active(self) -> bool:
        return self.state is CoordinatorState.ACTIVE

    def now_ms(self) -> int:
        """Return the wall time in milliseconds, which the methods of shards expect."""
        return self._clock.wall_ms()

    # -- leadership

    def raise_epoch(self, epoch: int) -> None:
        """Continue in a later leader epoch of this same broker."""
        assert epoch >= self._epoch, f"leader epoch {epoch} after {self._epoch}"
        self._epoch = epoch

    def activate(self) -> None:
        """Start serving requests, after the log was replayed."""
        assert self.state is CoordinatorState.LOADING, self.state
        self.state = CoordinatorState.ACTIVE
        self.run(self.shard.loaded(self.now_ms()))

    def close(self) -> None:
        """Stop serving requests. Appends in flight are settled without effect."""
        assert self.state is not CoordinatorState.CLOSED
        self.state = CoordinatorState.CLOSED
        self.run(self.shard.unloaded(self.now_ms()))

    # -- carrying out

    def run(self, result: CoordinatorResult[T, R, P, E]) -> T:
        """Carry out a result of the shard, and return its immediate response."""
        for event in result.events:
            getattr(self._events, event.level)(event.name, **event.facts)
        for reply in result.replies:
            reply.send()
        for effect in result.effects:
            self._perform(self, effect)
        for append in result.appends:
            self._append(append)
        for append in result.retries:
            self._append_later(append)
        return result.response

    def _append_later(self, append: CoordinatorAppend[R, P]) -> None:
        def retry() -> None:
            if self.is_active:
                self._append(append)

        self._clock.call_later(APPEND_RETRY_MS, retry)

    def _append(self, append: CoordinatorAppend[R, P]) -> None:
        assert self.is_active, f"append by a coordinator that is {self.state.value}"

        settled = False

        def done(error: ErrorCode, base_offset: int) -> None:
            nonlocal settled
            assert not settled, "an append is settled once"
            settled = True
            if error is ErrorCode.NONE and append.records:
                assert base_offset >= 0, base_offset
            if error is not ErrorCode.NONE:
                purpose = append.purpose
                self._events.warning(
                    "append_failed",
                    purpose=type(purpose).__name__,
                    error=error.name,
                    **purpose.event_facts(),
                )
            self.run(self.shard.settle(append, error, base_offset, self.now_ms()))

        if not append.records:
            done(ErrorCode.NONE, -1)
            return
        try:
            batch = self._batch(append)
        except EncodeError:  # a text that no record can hold
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        if append.transaction is not None:
            guard = append.transaction.guard
            self._log.append_in_transaction(self.partition, batch, guard, done)
        elif append.replicated:
            self._log.append(self.partition, batch, done)
        else:
            self._log.append_on_leader(self.partition, batch, done)

    def _batch(self, append: CoordinatorAppend[R, P]) -> bytes:
        now_ms = self.now_ms()
        records = [(now_ms, *self.shard.encode(record), ()) for record in append.records]
        transaction = append.transaction
        if transaction is None:
            return build_batch(records, compression=self._compression)
        return build_batch(
            records,
            compression=self._compression,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transactional=True,
        )


class CoordinatorRuntime(Generic[S, R, P, E]):
    """The coordinated partitions of one internal topic.

    Call ``elected`` and ``resigned`` in the order of the controller's requests. A resignation
    takes effect immediately, even while the partition is loading. ``perform`` carries out the
    effects of a result.
    """

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        new_shard: Callable[[], S],
        perform: Callable[[CoordinatorContext[S, R, P, E], E], None],
        partition_count: Callable[[], int],
        config: RuntimeConfig,
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._log = log
        self._new_shard = new_shard
        self._perform = perform
        self._partition_count = partition_count
        self._config = config
        self._events = events
        self._loader = CoordinatorLoader(clock, log, config.load_buffer_size, events)
        self._contexts: dict[int, CoordinatorContext[S, R, P, E]] = {}
        self._epochs: dict[int, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        """Refuse all requests and cancel all tasks."""
        self._closed = True
        for task in self._running:
            task.cancel()

    def start_task(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Run ``work`` in the background until it ends, or until ``close``."""
        assert self._tasks is not None, "after start"
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # -- leadership

    def elected(self, partition: int, epoch: int) -> None:
        """Start coordinating ``partition``: this broker leads it in ``epoch``.

        A partition that it already coordinates stays loaded and continues in the new epoch.
        """
        if not self._learn_epoch(partition, epoch):
            return
        known = self._contexts.get(partition)
        if known is not None:
            known.raise_epoch(epoch)
            return
        context = self._contexts[partition] = CoordinatorContext(
            partition,
            epoch,
            self._new_shard(),
            self._clock,
            self._log,
            self._config.compression,
            self._perform,
            self._events,
        )
        self._events.debug("coordinator_elected", partition=partition, epoch=epoch)
        self.start_task(self._load(context), f"load-{self._config.plural}-{partition}")

    def resigned(self, partition: int, epoch: int) -> None:
        """Stop coordinating ``partition``: another broker leads it in ``epoch``."""
        if self._learn_epoch(partition, epoch):
            self._unload(partition, epoch)

    def replica_removed(self, partition: int) -> None:
        """Stop coordinating a partition whose local replica was deleted or whose disk has
        failed."""
        self._unload(partition, None)

    def unload_all(self) -> None:
        """Stop coordinating every partition, because the broker shuts down."""
        for partition in list(self._contexts):
            self._contexts.pop(partition).close()

    def _unload(self, partition: int, epoch: int | None) -> None:
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        self._log_shard(context, "coordinator_resigned", epoch=epoch)
        context.close()

    def _learn_epoch(self, partition: int, epoch: int) -> bool:
        """Record the epoch of a controller's request. Return False for an outdated request."""
        if epoch < self._epochs.get(partition, epoch):
            return False
        self._epochs[partition] = epoch
        return True

    async def _load(self, context: CoordinatorContext[S, R, P, E]) -> None:
        partition, shard = context.partition, context.shard

        def is_current() -> bool:
            return self._contexts.get(partition) is context

        started_ms = self._clock.monotonic_ms()
        complete = await self._loader.load(partition, shard, is_current)
        if complete and shard.awaits_replication:
            complete = await self._log.replicated(partition)
        if not is_current():
            return
        if not complete:  # this broker leads it no more; the controller's request is on its way
            self._unload(partition, context.epoch)
            return
        context.activate()
        took_ms = self._clock.monotonic_ms() - started_ms
        self._log_shard(
            context, f"{self._config.plural}_loaded", epoch=context.epoch, took_ms=took_ms
        )

    def _log_shard(self, context: CoordinatorContext[S, R, P, E], event: str, **facts: Any) -> None:
        """Log an event about a shard, at level debug if the shard is empty."""
        size = context.shard.size
        log = self._events.info if size else self._events.debug
        log(event, partition=context.partition, **{self._config.plural: size}, **facts)

    # -- finding the context

    def partition_for(self, key: str) -> int:
        """Return the partition of a group id or transactional id."""
        return partition_for(key, self._partition_count())

    def require(self, key: str) -> CoordinatorContext[S, R, P, E]:
        """Return the active context for a group id or transactional id.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE while shutting down, NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        context = self._contexts.get(self.partition_for(key))
        if context is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not context.is_active:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return context

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_loading(self) -> bool:
        """Whether any partition is loading."""
        return any(not context.is_active for context in self._contexts.values())

    def active(self) -> Iterator[CoordinatorContext[S, R, P, E]]:
        """Iterate over the active contexts by partition number. Contexts may change meanwhile."""
        for partition in sorted(self._contexts):
            context = self.active_in(partition)
            if context is not None:
                yield context

    def active_in(self, partition: int) -> CoordinatorContext[S, R, P, E] | None:
        """Return the context of ``partition``; None if it is loading or not coordinated here."""
        context = self._contexts.get(partition)
        return context if context is not None and context.is_active else None
