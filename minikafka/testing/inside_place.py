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
    """``inside``, a cluster that has been started, as tests see it."""

    where: Where = "inside"

    def __init__(self, inside: InsideCluster) -> None:
        self.inside = inside
        self._started = tuple(inside.broker_ids)
        self._loop = inside.call(_running_loop())

    @classmethod
    def start_brokers(cls, brokers: int, settings: Mapping[str, str]) -> InsidePlace:
        """Start a cluster. Raises ConfigError for settings that cannot be used, and OSError."""
        inside = InsideCluster(brokers, settings)
        inside.start()
        return cls(inside)

    @property
    def bootstrap(self) -> str:
        return self.inside.bootstrap

    @property
    def brokers(self) -> Sequence[int]:
        return self.inside.broker_ids

    @property
    def is_as_started(self) -> bool:
        return tuple(self.brokers) == self._started

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
        return self.inside.is_running(broker)

    async def stop(self, broker: int) -> None:
        await in_thread(self.inside.stop_broker, broker)

    async def kill(self, broker: int) -> None:
        await in_thread(self.inside.kill_broker, broker)

    async def start(self, broker: int) -> None:
        if not self.is_running(broker):
            await in_thread(self.inside.kill_broker, broker)  # what is left, if it ended by itself
        await in_thread(self.inside.start_broker, broker)

    async def restore(self) -> bool:
        ended = [broker for broker in self.brokers if not self.is_running(broker)]
        for broker in ended:
            await self.start(broker)
        return bool(ended)

    def events(self, name: str | None = None) -> list[BrokerEvent]:
        return self.inside.events(name)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
