"""The place inside the process: ``minikafka.inside`` for any client, up in some milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from minikafka.inside.cluster import BrokerEvent, InsideCluster
from minikafka.testing.clients import ClusterClients, in_thread
from minikafka.testing.cluster import AnyCluster, Where

T = TypeVar("T")


class InsidePlace(AnyCluster):
    """Brokers inside this process, started. ``inside`` is the cluster itself. Raises ConfigError
    for settings that cannot be used."""

    where: Where = "inside"

    def __init__(self, brokers: int, settings: Mapping[str, str]) -> None:
        self.inside = InsideCluster(brokers, settings)
        self.inside.start()
        self._brokers = list(range(1, brokers + 1))
        self._started = brokers
        self._ended: set[int] = set()
        self._loop = self.inside.call(_running_loop())

    @property
    def bootstrap(self) -> str:
        return self.inside.bootstrap

    @property
    def brokers(self) -> Sequence[int]:
        return tuple(self._brokers)

    @property
    def is_as_started(self) -> bool:
        return len(self._brokers) == self._started

    def clients(self) -> ClusterClients:
        return ClusterClients(*self.inside.client())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await in_thread(self.inside.call, work)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.inside.call(work)

    def close(self) -> None:
        self.inside.stop()

    # ------------------------------------------------------------------------------- single brokers

    def is_running(self, broker: int) -> bool:
        return broker not in self._ended

    async def stop(self, broker: int) -> None:
        await in_thread(self.inside.stop_broker, broker)
        self._ended.add(broker)

    async def kill(self, broker: int) -> None:
        await in_thread(self.inside.kill_broker, broker)
        self._ended.add(broker)

    async def start(self, broker: int) -> None:
        await in_thread(self.inside.start_broker, broker)
        self._ended.discard(broker)

    async def restore(self) -> bool:
        ended = sorted(self._ended)
        for broker in ended:
            await self.start(broker)
        return bool(ended)

    def events(self, name: str | None = None) -> list[BrokerEvent]:
        return self.inside.events(name)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
