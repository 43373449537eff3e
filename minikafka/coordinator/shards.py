"""The partitions of ``__consumer_offsets`` that are coordinated here: loaded, served, unloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from minikafka.coordinator.config import GroupCoordinatorConfig
from minikafka.coordinator.loader import Loader
from minikafka.coordinator.ports import OffsetsLog, Purgatory
from minikafka.coordinator.runtime import ShardRuntime
from minikafka.core.coordinator_partition import partition_for
from minikafka.core.group.group import Group
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock

GROUPS_IN_ONE_BREATH = 100


class GroupShards:
    """``elected`` and ``resigned`` come from the controller's requests, in their order; a
    resignation takes effect at once, in the middle of a load too."""

    def __init__(
        self,
        clock: Clock,
        log: OffsetsLog,
        rebalances: Purgatory,
        heartbeats: Purgatory,
        config: GroupCoordinatorConfig,
        partition_count: Callable[[], int],
        events: EventLog,
    ) -> None:
        self.clock = clock
        self.log = log
        self.rebalances = rebalances
        self.heartbeats = heartbeats
        self.config = config
        self.events = events
        self._partition_count = partition_count
        self._loader = Loader(clock, log, config, events)
        self._runtimes: dict[int, ShardRuntime] = {}
        self._epochs: dict[int, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._start_task(self._expire_forever(), "delete-expired-group-metadata")

    def close(self) -> None:
        """Load and expire nothing more, serve nobody."""
        self._closed = True
        for task in self._running:
            task.cancel()

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None, "after start"
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # -- leadership

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads ``partition`` now. One that it led before goes on as it is."""
        if not self._is_news(partition, epoch):
            return
        known = self._runtimes.get(partition)
        if known is not None:
            known.epoch = epoch
            return
        runtime = self._runtimes[partition] = ShardRuntime(partition, epoch, self)
        self.events.debug("coordinator_elected", partition=partition, epoch=epoch)
        self._start_task(self._load(runtime), f"load-groups-{partition}")

    def resigned(self, partition: int, epoch: int | None) -> None:
        """Another broker leads it; ``epoch`` None: its replica here is deleted."""
        if epoch is not None and not self._is_news(partition, epoch):
            return
        runtime = self._runtimes.pop(partition, None)
        if runtime is None:
            return
        groups = len(runtime.shard.groups)
        tell = self.events.info if groups else self.events.debug
        tell("coordinator_resigned", partition=partition, epoch=epoch, groups=groups)
        runtime.run(runtime.shard.unloaded(self.clock.wall_ms()))

    def _is_news(self, partition: int, epoch: int) -> bool:
        if epoch < self._epochs.get(partition, epoch):
            return False
        self._epochs[partition] = epoch
        return True

    async def _load(self, runtime: ShardRuntime) -> None:
        partition = runtime.partition

        def is_wanted() -> bool:
            return self._runtimes.get(partition) is runtime

        started_ms = self.clock.monotonic_ms()
        whole = await self._loader.load(partition, runtime.shard, is_wanted)
        if not (whole and is_wanted()):
            return
        runtime.loading = False
        runtime.run(runtime.shard.loaded(self.clock.wall_ms()))
        tell = self.events.info if runtime.shard.groups else self.events.debug
        tell(
            "groups_loaded",
            partition=partition,
            epoch=runtime.epoch,
            groups=len(runtime.shard.groups),
            took_ms=self.clock.monotonic_ms() - started_ms,
        )

    # -- who coordinates what

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self._partition_count())

    def require(self, group_id: str) -> ShardRuntime:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE while shutting down,
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        if self._closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        runtime = self._runtimes.get(self.partition_for(group_id))
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if runtime.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return runtime

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_loading(self) -> bool:
        return any(runtime.loading for runtime in self._runtimes.values())

    def loaded(self) -> Iterator[ShardRuntime]:
        """Those that are served, by partition."""
        for partition in sorted(self._runtimes):
            runtime = self._runtimes.get(partition)
            if runtime is not None and not runtime.loading:
                yield runtime

    def groups(self) -> Iterator[tuple[ShardRuntime, Group]]:
        """All that are served; they may come and go meanwhile."""
        for runtime in self.loaded():
            for group in list(runtime.shard.groups.values()):
                yield runtime, group

    # -- expiry

    async def _expire_forever(self) -> None:
        while True:
            await self.clock.sleep(self.config.offsets_retention_check_interval_ms)
            await self.expire()

    async def expire(self) -> None:
        """Delete what has expired by now, in every group."""
        expired = 0
        for count, (runtime, group) in enumerate(self.groups(), start=1):
            if not group.is_dead:
                result, offsets = runtime.shard.expire(group, self.clock.wall_ms())
                runtime.run(result)
                expired += offsets
            if count % GROUPS_IN_ONE_BREATH == 0:
                await self.clock.sleep(0)
        if expired:
            self.events.info("offsets_expired", offsets=expired)
