"""`minikafka verify` against simulated clusters: storms of faults, clocks that jump."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import storm
from tests.support.simulated.verified import verified

FAULTS = 4
DAY_MS = 24 * 3600 * 1000
JUMPS_MS = (DAY_MS, -DAY_MS, 0)


@pytest.mark.mission("PRD-6", "PSM-9")
@pytest.mark.parametrize("seed", range(2))
def test_a_storm(seed: int) -> None:
    """An idempotent producer's records are there once, in order, whatever happens."""

    async def scenario(cluster: SimCluster) -> None:
        await verified(cluster, lambda: storm(cluster, FAULTS))

    SimCluster(seed).run(scenario)


def test_clocks_that_jump() -> None:
    """A day ahead, a day behind, and back, at one broker after the other, the clients not."""

    async def scenario(cluster: SimCluster) -> None:
        async def jumps() -> None:
            for broker_id in cluster.broker_ids:
                for jump_ms in JUMPS_MS:
                    cluster.host(broker_id).set_wall_offset(jump_ms)
                    await asyncio.sleep(1)
            assert all(len(cluster.nodes()) == 3 for _ in cluster.broker_ids)

        verdict = await verified(cluster, jumps)
        assert verdict.counts["in_doubt"] == 0
        assert verdict.counts["longest_wait_ms"] < 1_000, (
            "nobody who is alive has been taken for dead"
        )

    SimCluster(11).run(scenario)
