"""The share-partitions that this broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Final

from minikafka.core.share.persister import (
    UNINITIALIZED_START_OFFSET,
    SharePersister,
    StateBatch,
    StateUpdate,
)
from minikafka.core.share.records import SharePartitionKey
from minikafka.core.share.session import ShareSession, ShareSessionKey, ShareSessions
from minikafka.core.share.settings import ShareGroupSettings, reset_timestamp
from minikafka.core.share.share_partition import (
    Acknowledgement,
    ShareLimits,
    SharePartition,
    Transition,
    record_state_error,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, TimerHandle, Workers
from minikafka.server.broker.fetch.offset_lookup import StartedLookup, find_offset
from minikafka.server.broker.fetch.reader import Isolation
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition

# The errors that clients receive for errors of the share coordinator.
_CLIENT_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
# After these errors the state is read again by the next fetch, here or at another leader.
_FENCES: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class LedSharePartition:
    """A share-partition at the leader of its partition, in its leader epoch.

    ``machine`` is None while the stored state is read. ``error`` says why it could not be read, or
    that the share-partition has another leader or no group any more: then it is replaced at the
    next fetch. ``is_read`` while a fetch reads records for it; others wait. ``written`` completes
    with the last change that is to be stored."""

    __slots__ = (
        "error",
        "is_read",
        "key",
        "leader_epoch",
        "lock_timer",
        "machine",
        "state_epoch",
        "topic_partition",
        "written",
    )

    def __init__(
        self, key: SharePartitionKey, topic_partition: TopicPartition, leader_epoch: int
    ) -> None:
        self.key = key
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self.machine: SharePartition | None = None
        self.error: ErrorCode | None = None
        self.is_read = False
        self.lock_timer: TimerHandle | None = None
        self.written: asyncio.Future[None] | None = None

    @property
    def acquirable(self) -> SharePartition | None:
        """The state machine, if a fetch may try to acquire records now."""
        if self.machine is None or self.error is not None or self.is_read:
            return None
        return self.machine if self.machine.can_acquire() else None


class SharePartitions:
    """The share-partitions that this broker leads, and the share sessions of their members.

    ``parked`` is the purgatory of ShareFetch: its operations watch share-partitions by their keys.
    ``settings`` returns those of a group, and ``read_settings`` reads a change that was made just
    now. Kafka: ``SharePartitionManager``."""

    def __init__(
        self,
        clock: Clock,
        workers: Workers,
        hosted: HostedPartitions,
        persister: SharePersister,
        parked: Reaper[Any],
        settings: Callable[[str], ShareGroupSettings],
        read_settings: Callable[[str], Awaitable[None]],
        sessions: ShareSessions,
        events: EventLog,
    ) -> None:
        self.sessions = sessions
        self.settings = settings
        self._read_settings = read_settings
        self.parked = parked
        self.hosted = hosted
        self._clock = clock
        self._workers = workers
        self._persister = persister
        self._events = events
        self._led: dict[SharePartitionKey, LedSharePartition] = {}
        self._keys: dict[TopicPartition, set[SharePartitionKey]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        for task in self._running:
            task.cancel()
        for key in list(self._led):
            self._drop(key)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._led.values())

    def now_ms(self) -> int:
        """Return the time by which locks end."""
        return self._clock.monotonic_ms()

    def lock_until_ms(self, group_id: str) -> int:
        return self.now_ms() + self.settings(group_id).lock_duration_ms

    # -- beginning

    def lead(self, key: SharePartitionKey, topic_partition: TopicPartition) -> LedSharePartition:
        """Return a share-partition, whose stored state is read at the first call.

        Raises KafkaError if this broker does not lead the partition."""
        known = self._led.get(key)
        if known is not None:
            return known
        partition = self.hosted.require(topic_partition)
        if not partition.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        led = LedSharePartition(key, topic_partition, partition.leader_epoch)
        self._led[key] = led
        self._keys.setdefault(topic_partition, set()).add(key)
        self._start(self._load(led), f"load-share-partition-{key.coordinator_key}")
        return led

    def _start(self, work: Any, name: str) -> None:
        assert self._tasks is not None, "requests come after start"
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _load(self, led: LedSharePartition) -> None:
        """Read the stored state, and construct the state machine. Fetches wait for it."""
        group_id, where = led.key
        found = await self._persister.read_state(group_id, {where: led.leader_epoch})
        stored = found[where]
        try:
            if stored.error is not ErrorCode.NONE:
                raise KafkaError(_client_error(stored.error))
            start = stored.start_offset
            if start == UNINITIALIZED_START_OFFSET:
                start = await self._first_offset(led)
            settings = self.settings(group_id)
            limits = ShareLimits(settings.delivery_count_limit, settings.partition_max_record_locks)
            machine = SharePartition(start, limits, stored.batches)
        except (KafkaError, OSError, ValueError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self._events.warning(
                "share_partition_not_loaded",
                share_partition=led.key.coordinator_key,
                error=repr(error),
            )
            self._drop(led.key, code, led)
            return
        led.state_epoch = stored.state_epoch
        led.machine = machine
        self._events.debug("share_partition_loaded", share_partition=led.key.coordinator_key)
        self.wake([led.key])

    async def _first_offset(self, led: LedSharePartition) -> int:
        """Return the start offset of a group without a stored one. Raises KafkaError, OSError.

        Read the group's settings again first: ``share.auto.offset.reset`` applies only once, and a
        client that has just set it relies on it."""
        await self._read_settings(led.key.group_id)
        settings = self.settings(led.key.group_id)
        timestamp = reset_timestamp(settings.auto_offset_reset, self._clock.wall_ms())
        partition = self.hosted.require(led.topic_partition)

        def search() -> Any:
            isolation = Isolation.HIGH_WATERMARK
            return find_offset(partition, timestamp, isolation, led.leader_epoch, True)

        found = await StartedLookup(search).with_workers(self._workers)
        return found.offset if found.offset >= 0 else partition.high_watermark

    # -- changes

    def acknowledge(
        self, key: SharePartitionKey, member_id: str, rows: Sequence[Acknowledgement]
    ) -> Coroutine[Any, Any, None]:
        """Acknowledge records synchronously, and return a coroutine that stores the change. Both
        raise KafkaError."""
        led = self._led.get(key)
        if led is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if led.machine is None:
            raise record_state_error(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        until_ms = self.lock_until_ms(key.group_id)
        transition = led.machine.acknowledge(member_id, rows, until_ms, self.now_ms())
        self.watch_locks(led)
        return self._complete(led, led.machine, transition)

    async def close_session(self, key: ShareSessionKey) -> None:
        """Remove a session, and release what its member has acquired."""
        session = self.sessions.remove(key)
        if session is not None:
            await self._release(session)

    async def _release(self, session: ShareSession) -> None:
        for where in session.partitions:
            led = self._led.get(SharePartitionKey(session.key.group_id, where))
            if led is None or led.machine is None:
                continue
            transition = led.machine.release_member(session.key.member_id)
            try:
                await self._complete(led, led.machine, transition)
            except KafkaError as error:  # the locks will end
                self._events.info(
                    "share_session_not_released",
                    share_partition=led.key.coordinator_key,
                    error=error.code.name,
                )

    def connection_closed(self, connection: object) -> None:
        """Close the sessions that a connection has opened, and forget the share-partitions of
        groups without a session."""
        for session in self.sessions.of_connection(connection):
            self.sessions.remove(session.key)
            self._start(self._leave(session), "release-share-session")

    async def _leave(self, session: ShareSession) -> None:
        group_id = session.key.group_id
        await self._release(session)
        if not self.sessions.has_group(group_id):
            for key in [key for key in self._led if key.group_id == group_id]:
                self._drop(key)

    async def _complete(
        self, led: LedSharePartition, machine: SharePartition, transition: Transition
    ) -> None:
        """Store a change, then make it final or undo it. Raises KafkaError if it is not stored."""
        if not transition.batches:
            return
        error = await self._write(led, machine, transition.batches)
        if machine.complete(transition, error is ErrorCode.NONE, self.now_ms()):
            self.wake([led.key])
        if error is not ErrorCode.NONE:
            if error in _FENCES:
                self._drop(led.key, error, led)
            raise KafkaError(error)

    async def _write(
        self, led: LedSharePartition, machine: SharePartition, batches: Sequence[StateBatch]
    ) -> ErrorCode:
        """Store changes after all earlier ones of the share-partition. A request that is repeated
        could otherwise take back a later one, with the start offset."""
        group_id, where = led.key
        earlier, written = led.written, asyncio.get_running_loop().create_future()
        led.written = written
        try:
            if earlier is not None:
                await asyncio.wait([earlier])
            update = StateUpdate(
                led.state_epoch,
                led.leader_epoch,
                machine.start_offset,
                machine.delivery_complete_count,
                tuple(batches),
            )
            errors = await self._persister.write_state(group_id, {where: update})
        finally:
            written.set_result(None)
        error = errors[where]
        return error if error is ErrorCode.NONE else _client_error(error)

    # -- locks

    def watch_locks(self, led: LedSharePartition) -> None:
        """Start the timer of the next lock of a share-partition, unless a timer runs."""
        if led.lock_timer is None and led.machine is not None:
            next_ms = led.machine.next_lock_ms
            if next_ms is not None:
                delay_ms = max(1, next_ms - self.now_ms())
                led.lock_timer = self._clock.call_later(delay_ms, lambda: self._end_locks(led))

    def _end_locks(self, led: LedSharePartition) -> None:
        led.lock_timer = None
        machine = led.machine
        if machine is None or led.error is not None:
            return
        changed = machine.expire_locks(self.now_ms())
        self.watch_locks(led)
        if changed:
            self._start(self._write_ended(led, machine, changed), "write-ended-share-locks")
            self.wake([led.key])

    async def _write_ended(
        self, led: LedSharePartition, machine: SharePartition, changed: Sequence[StateBatch]
    ) -> None:
        """Store that locks have ended. They end even if the write fails."""
        error = await self._write(led, machine, changed)
        if machine.advance():
            self.wake([led.key])
        if error in _FENCES:
            self._drop(led.key, error, led)

    # -- the end

    def partition_lost(self, topic_partition: TopicPartition) -> None:
        """Forget the share-partitions of a partition that this broker does not lead any more."""
        for key in list(self._keys.get(topic_partition, ())):
            self._drop(key)

    def forget_all(self) -> None:
        """Forget all sessions and share-partitions: share groups are switched off."""
        for session in list(self.sessions):
            self.sessions.remove(session.key)
        for key in list(self._led):
            self._drop(key)

    def _drop(
        self,
        key: SharePartitionKey,
        error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
        only: LedSharePartition | None = None,
    ) -> None:
        """Forget a share-partition, if it is still the ``only`` one given."""
        led = self._led.get(key)
        if led is None or (only is not None and led is not only):
            return
        del self._led[key]
        keys = self._keys[led.topic_partition]
        keys.discard(key)
        if not keys:
            del self._keys[led.topic_partition]
        led.error = error
        if led.lock_timer is not None:
            led.lock_timer.cancel()
        self.wake([key])

    def wake(self, keys: Collection[SharePartitionKey]) -> None:
        """Try the fetches that wait for share-partitions."""
        self.parked.check_all_and_complete(keys)

    def partition(self, led: LedSharePartition) -> Partition:
        """Return the partition that this broker leads. Raises KafkaError if it does not."""
        partition = self.hosted.require(led.topic_partition)
        if not partition.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition


def _client_error(error: ErrorCode) -> ErrorCode:
    return _CLIENT_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
