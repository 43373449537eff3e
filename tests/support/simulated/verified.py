"""A simulated cluster with a fault under the load of `minikafka verify`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from minikafka.testing.verify.report import RunVerdict, WorkloadVerdict
from minikafka.testing.verify.run import Progress, Run
from minikafka.testing.verify.workload import RunConfig

TOPIC = "watched"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))
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


async def verified(cluster: SimCluster, fault: Callable[[], Awaitable[None]]) -> WorkloadVerdict:
    """Run ``fault`` under load. All brokers must be back afterwards, and the load continues."""
    await up(cluster)
    config = RunConfig(
        duration_ms=NEVER_MS, producers=2, consumers=1, partitions=3, records_per_s=60, topic=TOPIC
    )
    reports: list[Progress] = []
    client = cluster.client_host.world
    run = Run(client, cluster.client_config, config, reports.append)
    verdicts: list[RunVerdict] = []

    async def execute() -> None:
        verdicts.append(await run.execute())

    running = cluster.spawn_client(execute(), "verify")

    def acknowledged() -> int:
        return reports[-1].counts["append"]["records_acknowledged"] if reports else 0

    await cluster.until("load", lambda: acknowledged() > ENOUGH)
    await cluster.until_whole(*PARTITIONS)
    await fault()
    await cluster.until_whole(*PARTITIONS)
    before = acknowledged()
    await cluster.until("load goes on", lambda: acknowledged() > before + ENOUGH)
    run.stop()
    await asyncio.wait([running])
    running.result()
    assert verdicts[0].ok, "\n".join(verdicts[0].lines())
    return verdicts[0].workloads[0]
