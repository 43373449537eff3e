"""A verification run: workloads side by side against a cluster, and what their judges find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from minikafka.client import Admin, ClientConfig
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.compacted.load import Compacted
from minikafka.testing.verify.deletions.load import DeleteRecords
from minikafka.testing.verify.groups.load import Groups, StaticGroups
from minikafka.testing.verify.report import Reported, RunVerdict, verdict
from minikafka.testing.verify.share_groups.load import ShareGroupsWorkload
from minikafka.testing.verify.transactions.load import Transactions
from minikafka.testing.verify.transform.load import ConsumeTransformProduce
from minikafka.testing.verify.workload import MakeWorkload, RunConfig, Scene

POLL_MS = 200
PROGRESS_MS = 1_000

# By their names for ``--workload``.
WORKLOADS: Mapping[str, MakeWorkload] = {
    each.name: each
    for each in (
        Append,
        DeleteRecords,
        Compacted,
        Transactions,
        ConsumeTransformProduce,
        Groups,
        StaticGroups,
        ShareGroupsWorkload,
    )
}


@dataclass(frozen=True, slots=True)
class Progress:
    """The counts of each workload so far. ``silent_ms``: time since one of their first counts
    grew."""

    elapsed_ms: int
    counts: Mapping[str, Mapping[str, int]]
    silent_ms: int


class Nemesis(Reported, Protocol):
    """Causes faults while the loads work."""

    async def run(self, stop: asyncio.Event) -> None:
        """Cause faults until ``stop`` is set, and heal them all."""
        ...


class Run:
    """A run; call ``execute`` once. ``stop`` ends the loads early, and the judges follow."""

    def __init__(
        self,
        world: World,
        client: ClientConfig,
        config: RunConfig,
        on_progress: Callable[[Progress], None] = lambda _: None,
        workloads: Sequence[MakeWorkload] = (Append,),
        nemesis: Nemesis | None = None,
    ) -> None:
        self._world = world
        self._client = client
        self._config = config
        self._on_progress = on_progress
        self._nemesis = nemesis
        self.scene = Scene(world, client, config)
        self.workloads = [make(self.scene) for make in workloads]

    def stop(self) -> None:
        self.scene.stop.set()

    async def execute(self) -> RunVerdict:
        """Load, read and judge; return the result.

        Raises what ``Workload.prepare`` and ``Workload.conclude`` raise.
        """
        for workload in self.workloads:
            await workload.prepare()
        self.scene.begin()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            async with asyncio.TaskGroup() as loads:
                loads.create_task(self._end_in_time())
                for workload in self.workloads:
                    loads.create_task(workload.load(), name=f"verify-{workload.name}")
                if self._nemesis is not None:
                    loads.create_task(self._nemesis.run(self.scene.stop), name="nemesis")
            watching.cancel()
        for workload in self.workloads:
            await workload.conclude()
        result = RunVerdict(tuple(verdict(workload) for workload in self.workloads), self._nemesis)
        if result.ok and not self._config.keep_topic:
            async with Admin(self._world, self._client) as admin:
                for topic in result.topics:
                    await admin.delete_topic(topic)
        return result

    async def _end_in_time(self) -> None:
        left_ms = self._config.duration_ms
        while left_ms > 0 and not self.scene.stop.is_set():
            await self._world.clock.sleep(min(POLL_MS, left_ms))
            left_ms = self._config.duration_ms - self.scene.now_ms()
        self.scene.stop.set()

    async def _watch(self) -> None:
        done, since_ms = 0, 0
        while True:
            await self._world.clock.sleep(PROGRESS_MS)
            counts = {workload.name: workload.counts() for workload in self.workloads}
            now_ms = self.scene.now_ms()
            now_done = sum(next(iter(each.values()), 0) for each in counts.values())
            if now_done > done:
                done, since_ms = now_done, now_ms
            self._on_progress(Progress(now_ms, counts, now_ms - since_ms))
