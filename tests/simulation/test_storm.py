"""Faults that the dice choose, many at a time; and the canary: a seed is one trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.testing.simulator.cluster import SimCluster
from minikafka.testing.simulator.faults import powerless
from tests.support.simulated.cluster_storm import trace_of
from tests.support.simulated.scenario import PARTITIONS, under_load

ROOT = Path(__file__).resolve().parents[2]
HASH_SEEDS = ("0", "1", "2")
CANARY_SEED = 3


@pytest.mark.parametrize("seed", range(6))
def test_storm(seed: int) -> None:
    trace_of(seed)


@pytest.mark.parametrize("seed", range(3))
def test_repeated_power_failures(seed: int) -> None:
    """Brokers never flush: records that one broker lost must be on the others. The ISRs are full
    in between."""

    async def fault(cluster: SimCluster) -> None:
        dice = cluster.simulation.entropy.fork("power")
        for _ in range(4):
            broker_id = cluster.broker_ids[dice.randrange(len(cluster.broker_ids))]
            await powerless(cluster, broker_id, dice.randrange(10))
            await cluster.until_whole(*PARTITIONS)

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


def test_one_seed_is_one_trace_whatever_the_hashes() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.simulated.cluster_storm", str(CANARY_SEED)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
        )
        for hash_seed in HASH_SEEDS
    ]
    traces = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert traces[0] == traces[1] == traces[2]
    for told in (b"replica_became_leader", b"start_offset=", b"elected", b"kill"):
        assert told in traces[0]
