"""The partitions of ``__consumer_offsets`` that are coordinated here, and the end of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from minikafka.coordinator.config import GroupCoordinatorConfig
from minikafka.coordinator.loader import Loader
from minikafka.coordinator.partitions import CoordinatedPartitions
from minikafka.coordinator.ports import InternalLog, Purgatory
from minikafka.coordinator.runtime import ShardRuntime
from minikafka.core.group.committing import delete_offsets
from minikafka.core.group.group import Group
from minikafka.core.group.records import GroupRecord, decode_record
from minikafka.core.group.result import CoordinatorResult
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock

# Looking at a hundred groups, or deleting a thousand offsets, takes a few milliseconds.
GROUPS_IN_ONE_BREATH = 100
OFFSETS_FOR_A_GROUP = 10


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

    # -- offsets that nobody needs any more

    async def _expire_forever(self) -> None:
        while True:
            await self.clock.sleep(self.config.offsets_retention_check_interval_ms)
            await self.expire()

    async def expire(self) -> None:
        """Delete what has expired by now, in every group."""

        def expire(runtime: ShardRuntime, group: Group) -> int:
            result, offsets = runtime.shard.expire(group, self.clock.wall_ms())
            runtime.run(result)
            return offsets

        expired = await self._delete_in_breaths(expire)
        if expired:
            self.events.info("offsets_expired", offsets=expired)

    def forget_offsets(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Have the offsets of these deleted in every group, soon. What is committed from now on is
        of a topic that was made anew."""
        gone = dict.fromkeys(topic_partitions)
        bounds = {runtime: self.log.bounds(runtime.partition) for runtime in self.loaded()}
        ends = {runtime: bound[1] for runtime, bound in bounds.items() if bound is not None}

        def forget(runtime: ShardRuntime, group: Group) -> int:
            offsets, end = group.offsets, ends.get(runtime, 0)
            few = offsets if len(offsets) < len(gone) else gone
            found = [tp for tp in few if tp in gone and offsets.is_older(tp, end)]
            if found:
                result = CoordinatorResult()
                delete_offsets(group, found, None, result)
                runtime.run(result)
            return len(found)

        if not self.is_closed:
            self.start_task(self._delete_in_breaths(forget), "forget-offsets")

    async def _delete_in_breaths(self, delete: Callable[[ShardRuntime, Group], int]) -> int:
        """``delete`` offsets in each group. Returns how many."""
        deleted = work = 0
        for runtime, group in self.groups():
            if group.is_dead:
                continue
            offsets = delete(runtime, group)
            deleted += offsets
            work += 1 + offsets // OFFSETS_FOR_A_GROUP
            if work >= GROUPS_IN_ONE_BREATH:
                work = 0
                await self.clock.sleep(0)
        return deleted
