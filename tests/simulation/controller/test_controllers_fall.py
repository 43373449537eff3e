"""Controllers killed and paused while topics are made, grown, moved, elected for and deleted."""

from __future__ import annotations

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.administration import administered

BROKERS = (1, 2, 3, 4)


@pytest.mark.mission("CEL-16", "CEL-17", "CFO-5", "DEL-4", "PSM-9", "CRS-2")
@pytest.mark.parametrize("seed", range(4))
def test_every_operation_is_finished_or_refused(seed: int) -> None:
    """More seeds: ``python -m tests.support.simulated.controller_campaign FIRST END``."""
    operator = SimCluster(seed, BROKERS).run(lambda cluster: administered(cluster, 6))
    assert sum(operator.done.values()) > 5
