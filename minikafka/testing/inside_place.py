"""The place inside the process: ``minikafka.inside`` for any client, up in some milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from minikafka.inside.cluster import BrokerEvent, InsideCluster
from minikafka.testing.clients import ClusterClients, in_thread
from minikafka.testing.cluster import AnyCluster, Where

if TYPE_CHECKING:
    from minikafka.testing.faults import EnvironmentFaultControl, RequestFaultControl

T = TypeVar("T")


class InsideOperations(Protocol):
    """What ``InsideCluster`` does beyond starting and ending brokers. Its methods block."""

    def isolate_broker(self, broker_id: int) -> object: ...

    def heal_broker(self, broker_id: int) -> object: ...

    def expire_session(self, broker_id: int) -> object: ...

    def add_broker(self) -> int: ...

    def compact(self, topic: str) -> object: ...

    def apply_retention(self, topic: str | None = None) -> object: ...

    def as_version(self, version: str | None) -> object: ...

    def requests(self, **select: Any) -> Sequence[Any]: ...

    @property
    def request_faults(self) -> RequestFaultControl: ...

    @property
    def environment_faults(self) -> EnvironmentFaultControl: ...


class InsidePlace(AnyCluster):
    """``inside``, a cluster that has been started, as tests see it."""

    where: Where = "inside"

    def __init__(self, inside: InsideCluster) -> None:
        self.inside = inside
        self._started = tuple(inside.broker_ids)
        self._operations = cast(InsideOperations, inside)
        self._isolated: set[int] = set()
        self._version: str | None = None
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
        await in_thread(self._operations.isolate_broker, broker)
        self._isolated.add(broker)

    async def heal(self, broker: int) -> None:
        await in_thread(self._operations.heal_broker, broker)
        self._isolated.discard(broker)

    async def expire_session(self, broker: int) -> None:
        await in_thread(self._operations.expire_session, broker)

    async def restore(self) -> bool:
        if self._version is not None:
            await self.as_version(None)
        isolated = sorted(self._isolated)
        for broker in isolated:
            await self.heal(broker)
        ended = [broker for broker in self.brokers if not self.is_running(broker)]
        for broker in ended:
            await self.start(broker)
        return bool(isolated or ended)

    def _forget(self, broker: int) -> None:
        """A broker that has ended is not isolated when it starts again."""
        self._isolated.discard(broker)

    # --------------------------------------------------------------------------- only in this place

    def events(self, name: str | None = None) -> list[BrokerEvent]:
        return self.inside.events(name)

    async def add_broker(self) -> int:
        return await in_thread(self._operations.add_broker)

    async def compact(self, topic: str) -> None:
        await in_thread(self._operations.compact, topic)

    async def apply_retention(self, topic: str | None = None) -> None:
        await in_thread(self._operations.apply_retention, topic)

    async def as_version(self, version: str | None) -> None:
        await in_thread(self._operations.as_version, version)
        self._version = version

    def requests(self, **select: Any) -> Sequence[Any]:
        return self._operations.requests(**select)

    @property
    def request_faults(self) -> RequestFaultControl:
        return self._operations.request_faults

    @property
    def environment_faults(self) -> EnvironmentFaultControl:
        return self._operations.environment_faults


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
