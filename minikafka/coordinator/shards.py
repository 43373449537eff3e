"""The partitions of ``__consumer_offsets`` that are coordinated here, and the expiry of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from minikafka.coordinator.config import GroupCoordinatorConfig
from minikafka.coordinator.loader import Loader
from minikafka.coordinator.partitions import CoordinatedPartitions
from minikafka.coordinator.ports import InternalLog, Purgatory
from minikafka.coordinator.runtime import ShardRuntime
from minikafka.core.group.group import Group
from minikafka.core.group.records import GroupRecord, decode_record
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock

GROUPS_IN_ONE_BREATH = 100


class GroupShards(CoordinatedPartitions[ShardRuntime]):
    """What the runtimes of all these partitions share is here too."""

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        rebalances: Purgatory,
        heartbeats: Purgatory,
        config: GroupCoordinatorConfig,
        partition_count: Callable[[], int],
        events: EventLog,
    ) -> None:
        super().__init__(
            clock,
            lambda partition, epoch: ShardRuntime(partition, epoch, self),
            partition_count,
            events,
            "groups",
        )
        self.log = log
        self.rebalances = rebalances
        self.heartbeats = heartbeats
        self.config = config
        self.loader: Loader[GroupRecord] = Loader(
            clock, log, config.offsets_load_buffer_size, decode_record, events
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        super().start(tasks)
        self.start_task(self._expire_forever(), "delete-expired-group-metadata")

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
