"""The session that producer, consumer and admin client share: connections, metadata, retries.

Calls to the coordinators of groups and of transactional ids also go through here.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.connections import Connections
from minikafka.client.metadata import Metadata
from minikafka.core.client.calls import (
    Call,
    ControllerCall,
    CoordinatorCall,
    CoordinatorKey,
    find_coordinator,
)
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.errors import LOST_COORDINATOR, Retries, RetryBackoff
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

T = TypeVar("T")


class ClusterSession:
    """The connections and the metadata of one client of one cluster."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        self.world = world
        self.config = config
        self.connections = Connections(world, config)
        self.metadata = Metadata(world, self.connections, config)
        self.backoff = RetryBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.metadata.start(tasks)

    async def close(self) -> None:
        try:
            await self.metadata.close()
        finally:
            self.connections.close()
        await self.connections.wait_closed()

    def deadline_ms(self, timeout_ms: int | None = None) -> int:
        """Return the time ``timeout_ms`` (else ``default_api_timeout_ms``) from now."""
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self.world.clock.monotonic_ms() + timeout_ms

    def remaining_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self.world.clock.monotonic_ms())

    def timeout_ms(self, deadline_ms: int) -> int:
        """Return a request's time-out: ``request_timeout_ms``, but not beyond the deadline."""
        return min(self.config.request_timeout_ms, self.remaining_ms(deadline_ms))

    def backoff_ms(self, code: ErrorCode, failures: int) -> int:
        """Return how long to wait after an error before the next attempt, with ``failures`` failed
        ones before."""
        return self.backoff.delay_ms(code, failures, self.world.entropy.random())

    async def retrying(self, attempt: Callable[[], Awaitable[T]], deadline_ms: int | None) -> T:
        """Return the result of ``attempt``, repeating it after retriable KafkaErrors until the
        deadline, or without end if it is None. Raises the last error."""
        clock, retries = self.world.clock, Retries(self.backoff)
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                draw = self.world.entropy.random()
                delay_ms = retries.next_delay_ms(error, clock.monotonic_ms(), deadline_ms, draw)
                if delay_ms is None:
                    raise
                self.metadata.note_error(error.code)
            await clock.sleep(delay_ms)

    async def call(self, node_id: int, call: Call[T], deadline_ms: int) -> T:
        """Carry out a call to a broker once. Raises KafkaError."""
        return await self.call_within(node_id, call, self.timeout_ms(deadline_ms))

    async def call_within(self, node_id: int, call: Call[T], timeout_ms: int) -> T:
        """Carry out a call to a broker once, within ``timeout_ms``. Raises KafkaError."""
        response = await self.connections.request(
            node_id, call.request, highest_version=call.highest_version, timeout_ms=timeout_ms
        )
        return call.read(response)

    async def call_any(self, call: Call[T], deadline_ms: int) -> T:
        """Carry out a call at any broker once; several brokers may get it. Raises KafkaError."""
        return call.read(await self._request_any(call, deadline_ms))

    async def call_any_retrying(self, call: Call[T], deadline_ms: int) -> T:
        """Carry out a call at any broker, repeating it until the deadline while no broker responds.

        Several brokers may get the request. An error in the response is not retried. Raises
        KafkaError.
        """
        return call.read(
            await self.retrying(lambda: self._request_any(call, deadline_ms), deadline_ms)
        )

    async def _request_any(self, call: Call[T], deadline_ms: int) -> Any:
        return await self.connections.request_any(
            call.request,
            highest_version=call.highest_version,
            timeout_ms=self.timeout_ms(deadline_ms),
        )

    async def call_controller(self, call: ControllerCall[T], deadline_ms: int) -> T:
        """Carry out a call at the current controller once. Raises KafkaError."""

        def known(view: ClusterView) -> int | None:
            return view.controller_id if view.controller_id in view.nodes else None

        controller = await self.metadata.wait_until(
            known, self.remaining_ms(deadline_ms), "the controller"
        )
        return await self.call(controller, call, deadline_ms)


class Client(ABC):
    """The base class of clients: an ``async with`` block, or ``start`` in the caller's
    TaskGroup."""

    def __init__(self, world: World, config: ClientConfig) -> None:
        self.session = ClusterSession(world, config)
        self._stack: AsyncExitStack | None = None

    @abstractmethod
    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the tasks. Returns without waiting for a broker."""

    @abstractmethod
    async def close(self) -> None:
        """Finish accepted work, end the tasks, close the connections. Idempotent."""

    async def abort(self) -> None:
        """End the tasks and close the connections without finishing accepted work."""
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
        """Close, or abort after an exception. When cancelled meanwhile, no task is left running."""
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


R = TypeVar("R")


class Coordinators:
    """The coordinators that one client has found. A lost one is looked up again.

    ``connection`` is added to their broker ids: SECOND_CONNECTION, or 0.
    """

    def __init__(self, session: ClusterSession, connection: int = 0) -> None:
        self._session = session
        self._connection = connection
        self._found: dict[CoordinatorKey, int] = {}
        self._finding = asyncio.Lock()

    async def call(self, call: CoordinatorCall[R], deadline_ms: int) -> R:
        """Carry out a call, retrying retriable errors until the deadline. Raises KafkaError."""
        return await self._session.retrying(
            lambda: self.call_once(call.coordinator, call, deadline_ms), deadline_ms
        )

    async def call_once(
        self, key: CoordinatorKey, call: Call[R], deadline_ms: int, timeout_ms: int | None = None
    ) -> R:
        """Carry out a call with one attempt. Raises KafkaError; after some errors the coordinator
        is looked up by the next call.

        The lookup ends at the deadline, the request after ``timeout_ms``, by default also at the
        deadline.
        """
        session = self._session
        node_id = await self.find(key, deadline_ms)
        try:
            return await session.call_within(
                node_id, call, timeout_ms or session.timeout_ms(deadline_ms)
            )
        except KafkaError as error:
            if error.code in LOST_COORDINATOR:
                self.forget(key)
            raise

    async def versions(
        self, key: CoordinatorKey, deadline_ms: int
    ) -> Mapping[int, tuple[int, int]]:
        """Return the coordinator's version ranges by API key, with one attempt. Raises
        KafkaError."""
        node_id = await self.find(key, deadline_ms)
        try:
            await self._session.connections.connect(node_id)
        except KafkaError:
            self.forget(key)
            raise
        return self._session.connections.versions(node_id)

    async def find(self, key: CoordinatorKey, deadline_ms: int) -> int:
        """Return the coordinator's broker id, with one attempt. Raises KafkaError."""
        async with self._finding:
            if key not in self._found:
                node_id = await look_up_coordinator(self._session, key, deadline_ms)
                self._found[key] = node_id + self._connection
            return self._found[key]

    def known(self, key: CoordinatorKey) -> int | None:
        """Return the broker id of a coordinator that was found and not lost since."""
        return self._found.get(key)

    def forget(self, key: CoordinatorKey) -> None:
        self._found.pop(key, None)


async def look_up_coordinator(
    session: ClusterSession, key: CoordinatorKey, deadline_ms: int
) -> int:
    """Send FindCoordinator to any broker. Before that, wait for the first metadata, whose request
    finds out if no server is a broker.

    One attempt. Raises KafkaError: COORDINATOR_NOT_AVAILABLE for a broker that newer metadata do
    not have, because it has just died or started.
    """
    metadata = session.metadata
    await metadata.wait_for_brokers(session.remaining_ms(deadline_ms))
    version = metadata.view.version
    node = await session.call_any(find_coordinator(key), deadline_ms)

    def is_there(view: ClusterView) -> bool | None:
        return node.id in view.nodes or (None if view.version == version else False)

    if not await metadata.wait_until(is_there, session.remaining_ms(deadline_ms), "the brokers"):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise KafkaError(code, f"coordinator of {key.key}: broker {node.id} is not in the metadata")
    return node.id
