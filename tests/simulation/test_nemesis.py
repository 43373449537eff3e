"""The nemesis of `minikafka verify` on simulated brokers: all that it can do there, in no time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from minikafka.core.client.cluster_view import Node
from minikafka.testing.simulator.cluster import CLIENT, SimCluster, host_name
from minikafka.testing.verify.nemesis.nemesis import ClusterNemesis, NemesisConfig
from minikafka.testing.verify.nemesis.places import BrokerActs, BrokerPlace
from minikafka.testing.verify.nemesis.plan import FaultKind
from minikafka.testing.verify.run import Run
from minikafka.testing.verify.workload import TOPIC_PREFIX, RunConfig
from tests.support.simulated.verified import up

NEVER_MS = 3_600_000


class SimulatedHosts(BrokerPlace):
    """The hosts and links of a simulation."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__({})
        self._cluster = cluster
        self._away: set[int] = set()
        zookeeper = cluster.simulation.zookeeper
        self.brokers = cluster.broker_ids
        self.acts = {
            FaultKind.KILL9: BrokerActs(self._ending(self._kill), self._start),
            FaultKind.TERM: BrokerActs(self._ending(cluster.stop), self._start),
            FaultKind.STOP: BrokerActs(self._clog, self._unclog),
            FaultKind.CUT: BrokerActs(self._cut, self._unclog),
            FaultKind.ZOOKEEPER: BrokerActs(
                lambda _: call(zookeeper.stop), lambda _: call(zookeeper.start)
            ),
        }

    async def check(self, nodes: Mapping[int, Node]) -> None:
        assert sorted(nodes) == sorted(self.brokers)

    def _ending(self, end: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
        async def act(broker: int) -> None:
            self._away.add(broker)
            await end(broker)

        return act

    async def _kill(self, broker: int) -> None:
        await self._cluster.host(broker).kill()

    async def _start(self, broker: int) -> None:
        if broker in self._away:
            self._away.remove(broker)
            self._cluster.start(broker)

    async def _clog(self, broker: int) -> None:
        for other in self._others(broker):
            self._cluster.simulation.clog(host_name(broker), other)
            self._cluster.simulation.clog(other, host_name(broker))

    async def _cut(self, broker: int) -> None:
        for other in self._others(broker):
            self._cluster.simulation.partition(host_name(broker), other)

    async def _unclog(self, broker: int) -> None:
        for other in self._others(broker):
            self._cluster.simulation.unclog(host_name(broker), other)
            self._cluster.simulation.unclog(other, host_name(broker))

    def _others(self, broker: int) -> list[str]:
        names = [host_name(other) for other in self.brokers if other != broker]
        return [*names, "zookeeper", CLIENT]


async def call(function: Callable[[], None]) -> None:
    function()


@pytest.mark.mission("JUDGE-81", "JUDGE-84")
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_recovers_from_each_kind(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        world, client = cluster.client_host.world, cluster.client_config
        place = SimulatedHosts(cluster)
        kinds = (*place.acts, FaultKind.REASSIGN, FaultKind.ELECT, FaultKind.RESTART_ALL)
        config = NemesisConfig(kinds, seed, longest_ms=12_000, calm_ms=1_000)
        nemesis = ClusterNemesis(world, client, config, [place], TOPIC_PREFIX)
        load = RunConfig(NEVER_MS, producers=1, consumers=1, partitions=3, records_per_s=30)
        run = Run(world, client, load, nemesis=nemesis)

        async def execute() -> None:
            verdict = await run.execute()
            assert verdict.ok, "\n".join(verdict.lines())

        running = cluster.spawn_client(execute(), "verify")

        def all_kinds() -> bool:
            return running.done() or len(nemesis.recoveries()) == len(kinds)

        await cluster.until("a recovery from each kind", all_kinds, 1_000)
        run.stop()
        await asyncio.wait([running])
        running.result()

    SimCluster(seed).run(scenario)
