"""The workloads of `minikafka verify` in simulated time, while brokers are killed."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import killed, paused
from minikafka.testing.verify.run import WORKLOADS, Progress, Run
from minikafka.testing.verify.workload import RunConfig
from tests.support.simulated.verified import up

FAULTS = 3
AWAY_S = 3.0
MORE = 30


SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}
SEEDS = {"delete-records": 3, "compacted": 3, "groups": 2, "static-groups": 1, "share-groups": 1}


@pytest.mark.mission("JUDGE-1", "JUDGE-2", "JUDGE-3", "JUDGE-30", "JUDGE-31", "JUDGE-32")
@pytest.mark.parametrize(
    ("workload", "seed"), [(name, seed) for name, count in SEEDS.items() for seed in range(count)]
)
def test_a_cluster_breaks_no_promise(workload: str, seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        config = RunConfig(3_600_000, 2, 1, 3, records_per_s=60)
        reports: list[Progress] = []
        world, client = cluster.client_host.world, cluster.client_config
        run = Run(world, client, config, reports.append, [WORKLOADS[workload]])

        def done() -> int:
            return sum(next(iter(reports[-1].counts[workload].values())) for _ in reports[-1:])

        async def execute() -> None:
            verdict = await run.execute()
            assert verdict.ok, "\n".join(verdict.lines())

        async def goes_on() -> None:
            before = done()
            await cluster.until("load goes on", lambda: done() > before + MORE, 120)

        running = cluster.spawn_client(execute(), "verify")
        choose = cluster.simulation.entropy.fork("victims").randrange
        for number in range(FAULTS):
            await goes_on()
            fault = (killed, paused)[number % 2]
            await fault(cluster, cluster.broker_ids[choose(len(cluster.broker_ids))], AWAY_S)
        await goes_on()
        run.stop()
        await asyncio.wait([running])
        running.result()

    SimCluster(seed, settings=SETTINGS).run(scenario)
