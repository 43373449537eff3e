"""`minikafka verify --nemesis` on the processes of `minikafka up`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from minikafka.client import ClientConfig
from minikafka.testing.broker_folders import BrokerFolders
from minikafka.testing.verify.nemesis.nemesis import ClusterNemesis, NemesisConfig
from minikafka.testing.verify.nemesis.plan import FaultKind
from minikafka.testing.verify.nemesis.up import UpPlace
from minikafka.testing.verify.report import RunVerdict
from minikafka.testing.verify.run import Run
from minikafka.testing.verify.workload import TOPIC_PREFIX, RunConfig
from minikafka.world.real.world import real_world
from tests.support.cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

KINDS = (FaultKind.KILL9, FaultKind.TERM, FaultKind.STOP, FaultKind.ELECT)
SETTINGS = ("zookeeper.session.timeout.ms=2000", "replica.lag.time.max.ms=3000")
SEED = 7
LIMIT_S = 180


async def verified(cluster: RealCluster) -> tuple[RunVerdict, ClusterNemesis]:
    """Verify until the cluster is whole after a fault of each kind."""
    world = real_world()
    client = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    config = NemesisConfig(KINDS, SEED, longest_ms=3_000, calm_ms=300)
    place = UpPlace(world.clock, cluster.directory)
    nemesis = ClusterNemesis(world, client, config, [place], TOPIC_PREFIX)
    await nemesis.prepare()
    run = Run(world, client, RunConfig(duration_ms=600_000, records_per_s=200), nemesis=nemesis)
    running = asyncio.create_task(run.execute())
    for _ in range(LIMIT_S * 10):
        if running.done() or sum(map(len, nemesis.recoveries().values())) >= len(KINDS):
            break
        await asyncio.sleep(0.1)
    run.stop()
    return await running, nemesis


@pytest.mark.mission("JUDGE-80")
def test_brokers_of_up_are_broken_and_recover(tmp_path: Path) -> None:
    with RealCluster(tmp_path / "cluster", overrides=SETTINGS) as cluster:
        before = {broker: cluster.broker_pid(broker) for broker in cluster.broker_ids}
        verdict, nemesis = asyncio.run(verified(cluster))
        told = "\n".join(verdict.lines())
        assert verdict.ok, told
        assert set(nemesis.recoveries()) == set(KINDS), told
        after = {broker: cluster.broker_pid(broker) for broker in cluster.broker_ids}
        ended = {
            victim
            for each in nemesis.caused
            if each.fault.kind in (FaultKind.KILL9, FaultKind.TERM)
            for victim in each.fault.victims
        }
        assert {broker for broker in after if after[broker] != before[broker]} == ended
        folders = BrokerFolders(cluster.directory)
        assert all(map(folders.is_alive, cluster.broker_ids))
    assert not any(map(folders.is_alive, cluster.broker_ids)), "up has stopped all of them"
