"""Random requests of one connection, all in flight, compared with the same sent one at a time."""

from __future__ import annotations

import random

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated import pipelining as pipe
from tests.support.simulated.pipelined_programmes import outcome, prepared, programme

PROGRAMMES = 12
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.mark.mission("ORD-1", "ORD-3")
@pytest.mark.parametrize(("seed", "more"), [(0, {}), (1, {}), (2, {}), (3, AUTHORIZER)])
def test_pipelined_requests_have_the_effect_of_one_at_a_time(
    seed: int, more: dict[str, str]
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        broker = await pipe.ready(cluster)
        control = await pipe.connected(cluster, broker)
        for number in range(PROGRAMMES):
            segments = programme(seed * PROGRAMMES + number)
            piped = await prepared(cluster, control, broker, f"p{number}x")
            single = await prepared(cluster, control, broker, f"s{number}x")
            wanted = await outcome(cluster, single, segments, None)
            found = await outcome(cluster, piped, segments, random.Random(number))
            assert len(found) == len(wanted)
            for together, alone in zip(found, wanted, strict=True):
                assert together == alone, f"programme {seed * PROGRAMMES + number}"

    SimCluster(seed, settings={**pipe.SETTINGS, **more}).run(scenario)
