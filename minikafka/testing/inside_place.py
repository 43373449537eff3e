"""The place inside the process: brokers for any client, up in some milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.testing.clients import ClusterClients, in_thread
from minikafka.testing.cluster import AnyCluster, Undo, Where
from minikafka.testing.inside.cluster import BrokerEvent, InsideCluster
from minikafka.world.real.world import RealClock

if TYPE_CHECKING:
    from minikafka.testing.inside.environment_faults import EnvironmentFaults
    from minikafka.testing.request_faults import RequestFaults

T = TypeVar("T")


class InsidePlace(AnyCluster):
    """``inside``, a cluster that has been started, as tests see it."""

    where: Where = "inside"

    def __init__(self, inside: InsideCluster) -> None:
        self.inside = inside
        self._started = tuple(inside.broker_ids)
        self._isolated: set[int] = set()
        self._paused: set[int] = set()
        self._version: str | None = None
        self._clock = RealClock()
        self._since_ms = 0  # the beginning of the test
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
        self._forget(broker)

    async def kill(self, broker: int) -> None:
        await in_thread(self.inside.kill_broker, broker)
        self._forget(broker)

    async def start(self, broker: int) -> None:
        if not self.is_running(broker):
            await in_thread(self.inside.kill_broker, broker)  # what is left, if it ended by itself
        await in_thread(self.inside.start_broker, broker)

    async def isolate(self, broker: int) -> None:
        await in_thread(self.inside.isolate_broker, broker)
        self._isolated.add(broker)

    async def heal(self, broker: int) -> None:
        await in_thread(self.inside.heal_broker, broker)
        self._isolated.discard(broker)

    async def pause(self, broker: int) -> None:
        await in_thread(self.inside.pause_broker, broker)
        self._paused.add(broker)

    async def resume(self, broker: int) -> None:
        await in_thread(self.inside.resume_broker, broker)
        self._paused.discard(broker)

    async def expire_session(self, broker: int) -> None:
        await in_thread(self.inside.expire_session, broker)

    async def restore(self) -> bool:
        if self._version is not None:
            await self.as_version(None)
        paused, isolated = sorted(self._paused), sorted(self._isolated)
        for broker in paused:
            await self.resume(broker)
        for broker in isolated:
            await self.heal(broker)
        ended = [broker for broker in self.brokers if not self.is_running(broker)]
        for broker in ended:
            await self.start(broker)
        return bool(paused or isolated or ended)

    async def way_back(self) -> Undo:
        self._since_ms = self._clock.monotonic_ms()
        clearing = self.inside.clearing
        return partial(clearing.undo, clearing.contents())

    def renew(self) -> None:
        self.inside.reset()
        self._isolated.clear()
        self._paused.clear()
        self._version = None

    def _forget(self, broker: int) -> None:
        """A broker that has ended is neither isolated nor paused when it starts again."""
        self._isolated.discard(broker)
        self._paused.discard(broker)

    # --------------------------------------------------------------------------- only in this place

    def events(self, name: str | None = None) -> list[BrokerEvent]:
        found = self.inside.events(name)
        return [event for event in found if event.monotonic_ms >= self._since_ms]

    async def add_broker(self) -> int:
        return await in_thread(self.inside.add_broker)

    async def compact(self, topic: str) -> None:
        await in_thread(self.inside.compact, topic)

    async def apply_retention(self, topic: str | None = None) -> None:
        await in_thread(self.inside.apply_retention, topic)

    async def as_version(self, version: str | None) -> None:
        await in_thread(self.inside.as_version, version)
        self._version = version

    def requests(self, **select: Any) -> Sequence[Any]:
        found = self.inside.requests(**select)
        return [request for request in found if request.monotonic_ms >= self._since_ms]

    @property
    def request_faults(self) -> RequestFaults:
        return self.inside.request_faults

    @property
    def environment_faults(self) -> EnvironmentFaults:
        return self.inside.environment_faults


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
