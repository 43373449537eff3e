"""The place of real processes: ``minikafka up`` with a real ZooKeeper, real kill -9 and SIGSTOP."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from minikafka.aio import world_of_clients
from minikafka.client import ClientConfig
from minikafka.kernel.errors import KafkaError
from minikafka.testing.clients import ClientThread, ClusterClients, attempts, in_thread
from minikafka.testing.cluster import AnyCluster, Where
from minikafka.testing.processes import ClusterNotStarted, ClusterProcesses

T = TypeVar("T")

POLL_MS = 50
ATTEMPT_MS = 2_000
TIMEOUT_S = 60


class ProcessesPlace(AnyCluster):
    """Broker processes with their data below ``directory``, started. Raises ClusterNotStarted."""

    where: Where = "processes"

    def __init__(self, brokers: int, settings: Mapping[str, str], directory: Path) -> None:
        rows = [f"{key}={value}" for key, value in settings.items()]
        self.processes = ClusterProcesses(directory, brokers, rows)
        self.processes.start()
        self._ended: set[int] = set()
        self._paused: set[int] = set()
        self._loop = ClientThread()

    @property
    def bootstrap(self) -> str:
        return self.processes.bootstrap

    @property
    def brokers(self) -> Sequence[int]:
        return range(1, self.processes.brokers + 1)

    def clients(self) -> ClusterClients:
        return ClusterClients(world_of_clients(), ClientConfig(bootstrap_servers=self.bootstrap))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._loop.run(work)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.call(work)

    def close(self) -> None:
        try:
            self._loop.close()
        finally:
            for broker in self._paused:
                self.processes.resume_broker(broker)
            self.processes.stop()

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker: int) -> bool:
        return broker not in self._ended

    async def stop(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            self.processes.stop_broker(broker)
            await self._until_ended(broker)

    async def kill(self, broker: int) -> None:
        if self.is_running(broker):
            self._ended.add(broker)
            self._paused.discard(broker)
            self.processes.kill_broker(broker)
            await self._until_ended(broker)

    async def start(self, broker: int) -> None:
        if self.is_running(broker):
            raise RuntimeError(f"broker {broker} runs")
        await in_thread(self.processes.restart_broker, broker)
        await self._until_it_serves(broker)
        self._ended.discard(broker)

    async def pause(self, broker: int) -> None:
        self.processes.pause_broker(broker)
        self._paused.add(broker)

    async def resume(self, broker: int) -> None:
        self.processes.resume_broker(broker)
        self._paused.discard(broker)

    async def restore(self) -> bool:
        """A paused broker starts again. It would learn only later that its session has expired: it
        would be registered now, gone, and registered again."""
        for broker in sorted(self._paused):
            await self.kill(broker)
        ended = sorted(self._ended)
        for broker in ended:
            await self.start(broker)
        return bool(ended)

    async def _until_ended(self, broker: int) -> None:
        clock = self.clients().world.clock
        for _ in attempts(clock, TIMEOUT_S):
            if not self.processes.is_alive(broker):
                return
            await clock.sleep(POLL_MS)
        raise ClusterNotStarted(f"broker {broker} has not ended after {TIMEOUT_S} s")

    async def _until_it_serves(self, broker: int) -> None:
        """The registration alone may still be that of the broker's last process."""
        address = self.processes.address(broker)
        clients = ClusterClients(world_of_clients(), ClientConfig(bootstrap_servers=address))
        for _ in attempts(clients.world.clock, TIMEOUT_S):
            async with clients.admin() as admin:
                try:
                    cluster = await admin.describe_cluster(timeout_ms=ATTEMPT_MS)
                except KafkaError:
                    continue
            if any(node.id == broker for node in cluster.nodes):
                return
            await clients.world.clock.sleep(POLL_MS)
        raise ClusterNotStarted(f"broker {broker} does not serve after {TIMEOUT_S} s")
