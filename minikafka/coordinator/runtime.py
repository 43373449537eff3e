"""Carries out what a shard of groups decides: log lines, answers, timers, appends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, assert_never

from minikafka.coordinator.config import GroupCoordinatorConfig
from minikafka.coordinator.delayed import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedSync,
    GroupJoinKey,
    GroupSyncKey,
    InitialDelayedJoin,
    MemberKey,
)
from minikafka.coordinator.loader import Loader
from minikafka.coordinator.ports import InternalLog, Purgatory
from minikafka.core.group.liveness import heartbeat_expired
from minikafka.core.group.rebalance import complete_join, initial_join_over, sync_expired
from minikafka.core.group.records import GroupRecord, encode_record
from minikafka.core.group.result import (
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    CoordinatorResult,
    HeartbeatTimer,
    JoinTimer,
    SyncTimer,
    Timer,
    Write,
)
from minikafka.core.group.shard import GroupShard
from minikafka.core.log.verification import NOT_REQUIRED
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.protocol.codec import EncodeError
from minikafka.protocol.records.builder import build_batch


class Surroundings(Protocol):
    """What the runtimes of all partitions share."""

    clock: Clock
    log: InternalLog
    loader: Loader[GroupRecord]
    rebalances: Purgatory
    heartbeats: Purgatory
    config: GroupCoordinatorConfig
    events: EventLog


class ShardRuntime:
    """One partition of ``__consumer_offsets``, coordinated here since ``epoch``.

    Everything runs in the breath of whoever calls; an append that is replicated at once (a single
    replica) is settled before the call returns. A ticket is the callable that takes the answer.
    """

    def __init__(self, partition: int, epoch: int, around: Surroundings) -> None:
        self.partition = partition
        self.epoch = epoch
        self.shard = GroupShard(around.config.group)
        self.loading = True
        self._around = around
        self._group_config = around.config.group
        self._events = around.events.bind(partition=partition)

    # -- leadership

    @property
    def size(self) -> int:
        return len(self.shard.groups)

    async def load(self, is_wanted: Callable[[], bool]) -> bool:
        return await self._around.loader.load(self.partition, self.shard, is_wanted)

    def loaded(self) -> None:
        self.run(self.shard.loaded(self._now_ms()))

    def unloaded(self) -> None:
        self.run(self.shard.unloaded(self._now_ms()))

    # -- requests

    def run(self, result: CoordinatorResult) -> None:
        for note in result.notes:
            getattr(self._events, note.level)(note.event, **note.facts)
        for ticket, answer in result.replies:
            reply: Any = ticket
            reply(answer)
        for timer in result.timers:
            self._apply(timer)
        for write in result.writes:
            self._write(write)

    # -- timers

    def _apply(self, timer: Timer) -> None:
        heartbeats, rebalances = self._around.heartbeats, self._around.rebalances
        group_id = timer.group.group_id
        if isinstance(timer, HeartbeatTimer):
            key = MemberKey(group_id, timer.member_id)
            if not timer.pending:
                heartbeats.check_and_complete(key)
            deadline_ms = self._around.clock.monotonic_ms() + timer.delay_ms
            heartbeats.try_complete_else_watch(DelayedHeartbeat(timer, deadline_ms, self), [key])
        elif isinstance(timer, JoinTimer):
            initial = timer.remaining_ms is not None
            operation = (InitialDelayedJoin if initial else DelayedJoin)(timer, self)
            rebalances.try_complete_else_watch(operation, [GroupJoinKey(group_id)])
        elif isinstance(timer, SyncTimer):
            rebalances.try_complete_else_watch(DelayedSync(timer, self), [GroupSyncKey(group_id)])
        elif isinstance(timer, CheckHeartbeat):
            heartbeats.check_and_complete(MemberKey(group_id, timer.member_id))
        elif isinstance(timer, CheckJoin):
            rebalances.check_and_complete(GroupJoinKey(group_id))
        elif isinstance(timer, CheckSync):
            rebalances.check_and_complete(GroupSyncKey(group_id))
        else:
            assert_never(timer)

    def heartbeat_expired(self, timer: HeartbeatTimer) -> None:
        result = CoordinatorResult()
        heartbeat_expired(
            timer.group,
            timer.member_id,
            timer.beat,
            timer.pending,
            self._group_config,
            self._now_ms(),
            result,
        )
        self.run(result)

    def join_over(self, timer: JoinTimer) -> None:
        result = CoordinatorResult()
        if timer.remaining_ms is None:
            complete_join(timer.group, self._now_ms(), result)
        else:
            initial_join_over(timer.group, timer, self._group_config, self._now_ms(), result)
        self.run(result)

    def sync_expired(self, timer: SyncTimer) -> None:
        result = CoordinatorResult()
        sync_expired(timer.group, timer.generation_id, self._group_config, self._now_ms(), result)
        self.run(result)

    def _now_ms(self) -> int:
        return self._around.clock.wall_ms()

    # -- the log

    def _write(self, write: Write) -> None:
        def done(error: ErrorCode, base_offset: int) -> None:
            if error is not ErrorCode.NONE:
                self._events.warning(
                    "write_failed",
                    group=write.group.group_id,
                    purpose=type(write.then).__name__,
                    error=error.name,
                )
            self.run(self.shard.settle(write, error, base_offset, self._now_ms()))

        if not write.records:
            done(ErrorCode.NONE, -1)
            return
        try:
            batch = self._batch(write)
        except EncodeError:  # a text that no record can hold
            done(ErrorCode.MESSAGE_TOO_LARGE, -1)
            return
        guard = NOT_REQUIRED if write.transaction is None else write.transaction.guard
        self._around.log.append(self.partition, batch, write.replicated, done, guard)

    def _batch(self, write: Write) -> bytes:
        now_ms = self._now_ms()
        records = [(now_ms, *encode_record(record), ()) for record in write.records]
        compression = self._around.config.compression
        transaction = write.transaction
        if transaction is None:
            return build_batch(records, compression=compression)
        return build_batch(
            records,
            compression=compression,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transactional=True,
        )
