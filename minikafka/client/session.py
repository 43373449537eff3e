"""What every kind of client is built on: connections, metadata, and retries until a deadline."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.connections import Connections
from minikafka.client.metadata import Metadata
from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.network.backoff import ExponentialBackoff
from minikafka.protocol.schema import Message

T = TypeVar("T")


class ClusterSession:
    """One client's dealings with one cluster."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        self.world = world
        self.config = config
        self.connections = Connections(world, config)
        self.metadata = Metadata(world, self.connections, config)
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.metadata.start(tasks)

    async def close(self) -> None:
        try:
            await self.metadata.close()
        finally:
            self.connections.close()
        await self.connections.wait_closed()

    def deadline_ms(self, timeout_ms: int | None = None) -> int:
        """The end of ``timeout_ms`` from now, or of ``default_api_timeout_ms``."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self.world.clock.monotonic_ms() + timeout_ms

    def remaining_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self.world.clock.monotonic_ms())

    def timeout_ms(self, deadline_ms: int) -> int:
        """Of a request: ``request_timeout_ms``, but not beyond the deadline."""
        return min(self.config.request_timeout_ms, self.remaining_ms(deadline_ms))

    async def retrying(self, attempt: Callable[[], Awaitable[T]], deadline_ms: int) -> T:
        """What ``attempt`` returns; retriable KafkaErrors are tried again until the deadline."""
        failures = 0
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                delay_ms = self.backoff.delay_ms(failures, self.world.entropy)
                late = self.world.clock.monotonic_ms() + delay_ms >= deadline_ms
                if late or not error.code.retriable:
                    raise
                self.metadata.note_error(error.code)
            failures += 1
            await self.world.clock.sleep(delay_ms)

    async def request_any(self, message: Message, deadline_ms: int) -> Any:
        """The answer of any broker, of several perhaps. Raises KafkaError."""

        async def attempt() -> Any:
            return await self.connections.request_any(
                message, timeout_ms=self.timeout_ms(deadline_ms)
            )

        return await self.retrying(attempt, deadline_ms)

    async def request_controller(self, message: Message, deadline_ms: int) -> Any:
        """One answer of the controller, whoever that is now. Raises KafkaError; to be retried."""

        def known(view: ClusterView) -> int | None:
            return view.controller_id if view.controller_id in view.nodes else None

        controller = await self.metadata.wait_until(
            known, self.remaining_ms(deadline_ms), "the controller"
        )
        return await self.connections.request(
            controller, message, timeout_ms=self.timeout_ms(deadline_ms)
        )


class Client(ABC):
    """A client as an ``async with`` block, or by ``start`` in a task group of the caller's."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        self.session = ClusterSession(world, config)
        self._stack: AsyncExitStack | None = None

    @abstractmethod
    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin. Returns without waiting for a broker."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was promised, end the tasks, hang up. Idempotent."""

    async def abort(self) -> None:
        """As ``close``, without finishing anything."""
        await self.close()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            await self.start(tasks)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancelled while it closes, it leaves nothing running."""
        assert self._stack is not None
        try:
            if error is None:
                await self.close()
            else:
                await self.abort()
        except asyncio.CancelledError as cancelled:
            # Left by this, the task group ends what ``close`` had no time to end, and raises it.
            await self._stack.__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
            raise
        except BaseException:
            await self._stack.aclose()
            raise
        await self._stack.aclose()


def raise_for(code: ErrorCode, message: str | None = None) -> None:
    """Raise KafkaError unless ``code`` is NONE."""
    if code is not ErrorCode.NONE:
        raise KafkaError(code, message)
