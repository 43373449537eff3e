"""A cluster whose memory for clients is always used up: everything proceeds, only slower."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.verified import verified


@pytest.mark.mission("SAFE-42")
@pytest.mark.parametrize("seed", range(2))
def test_nothing_waits_for_ever_when_the_memory_is_used_up(seed: int) -> None:
    """Producers with acks=all, consumers, followers and the controller share one byte."""

    async def scenario(cluster: SimCluster) -> None:
        verdict = await verified(cluster, lambda: asyncio.sleep(20))
        assert verdict.counts["in_doubt"] == 0
        assert all(node._parts.memory.is_exceeded for node in cluster.nodes().values())

    SimCluster(seed, settings={"client.memory.max.bytes": "1"}).run(scenario)
