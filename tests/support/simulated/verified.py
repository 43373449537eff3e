"""A simulated cluster with a fault under the load of `minikafka verify`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.report import RunVerdict, WorkloadVerdict
from minikafka.testing.verify.run import Run
from minikafka.testing.verify.workload import MakeWorkload, RunConfig

TOPIC = "watched"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))  # of the append workload
ENOUGH = 50
NEVER_MS = 3_600_000  # the scenario says when it is over


class Events:
    """The brokers' log events, for a scenario to examine."""

    def __init__(self, cluster: SimCluster) -> None:
        self.all: list[LogEvent] = []
        cluster.observers.append(self.all.append)

    def named(self, name: str, broker: int | None = None) -> list[LogEvent]:
        return [
            event
            for event in self.all
            if event.name == name and broker in (None, event.facts.get("broker"))
        ]


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))


async def verified(
    cluster: SimCluster, fault: Callable[[], Awaitable[None]], make: MakeWorkload = Append
) -> WorkloadVerdict:
    """Run ``fault`` under the load of a workload. All brokers must be back afterwards, and the load
    continues. Raises AssertionError if the judge finds anything."""
    await up(cluster)
    config = RunConfig(NEVER_MS, 2, 1, 3, records_per_s=60, topic=TOPIC, keep_topic=True)
    run = Run(cluster.client_host.world, cluster.client_config, config, workloads=[make])
    (workload,) = run.workloads
    partitions = [TopicPartition(name, at) for name in workload.topics for at in range(3)]
    verdicts: list[RunVerdict] = []

    async def execute() -> None:
        verdicts.append(await run.execute())

    running = cluster.spawn_client(execute(), "verify")

    def done() -> int:
        return next(iter(workload.counts().values()))

    await cluster.until("load", lambda: done() > ENOUGH)
    await cluster.until_whole(*partitions)
    await fault()
    await cluster.until_whole(*partitions)
    before = done()
    await cluster.until("load goes on", lambda: done() > before + ENOUGH)
    run.stop()
    await asyncio.wait([running])
    running.result()
    assert verdicts[0].ok, "\n".join(verdicts[0].lines())
    return verdicts[0].workloads[0]
