"""Requests of this broker to the current controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from minikafka.core.backoff import ExponentialBackoff
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Entropy, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from minikafka.protocol.schema import Message
from minikafka.server.broker.metadata.cache import MetadataCache

MAX_QUEUED = 100


@dataclass(frozen=True, slots=True)
class NodeToControllerConfig:
    """The time-outs of requests to the controller. ``controller_socket_timeout_ms`` bounds one
    attempt, ``request_timeout_ms`` a request with all its attempts."""

    inter_broker_listener: str = "PLAINTEXT"
    controller_socket_timeout_ms: int = 30_000
    request_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000


class _Queued(NamedTuple):
    """``versions`` are the lowest and the highest in which ``make`` makes the message. If ``suits``
    is not None, the controller's ApiVersions is read first: it must have one of the versions, and
    ``suits`` must be true of its rows."""

    api_key: int
    versions: tuple[int, int]
    make: Callable[[int], Message]
    suits: Callable[[Iterable[ApiVersion]], bool] | None
    deadline_ms: int
    reply: asyncio.Future[Any]


class NodeToController:
    """Sends requests to the controller, one at a time (``NodeToControllerChannelManager``).

    A request whose connection fails is sent again, on a new connection to the controller of that
    time, until a response arrives or ``request_timeout_ms`` has passed. So is a request that is in
    flight when another controller is known: the old one may not respond for long."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        cache: MetadataCache,
        broker_id: int,
        config: NodeToControllerConfig,
        log: EventLog | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._cache = cache
        self._broker_id = broker_id
        self._config = config
        self._log = log or event_log("node-to-controller", broker=broker_id)
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._queue: asyncio.Queue[_Queued] = asyncio.Queue(MAX_QUEUED)
        self._current: _Queued | None = None
        self._channel: Channel | None = None
        self._opening: asyncio.Task[None] | None = None  # sets ``_channel``
        self._controller: int | None = None
        self._offers: dict[int, ApiVersion] | None = None  # of the controller on this channel
        self._sender: asyncio.Task[None] | None = None
        cache.on_new_controller(self._leave_old_controller)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._sender = tasks.create_task(self._send_all(), name="node-to-controller")

    async def close(self) -> None:
        """Stop sending. Requests without a response fail with ConnectionError."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        self._disconnect()

    async def request(self, message: Message, version: int) -> Any:
        """Send ``message`` and return the controller's response.

        The response may be the error NOT_CONTROLLER, when the metadata cache lagged behind. Raises
        TimeoutError after ``request_timeout_ms``, and ConnectionError when this broker stops.
        """
        timeout_ms = self._config.request_timeout_ms
        return await self._request(
            _key_of(message), (version, version), lambda _: message, None, timeout_ms
        )

    async def request_if_offered(self, message: Message, version: int, timeout_ms: int) -> Any:
        """Send ``message`` as ``request`` does, but only to a controller whose ApiVersions has this
        API in this version; otherwise return None."""
        return await self.request_if(_any_controller, message, version, timeout_ms)

    async def request_if(
        self,
        suits: Callable[[Iterable[ApiVersion]], bool],
        message: Message,
        version: int,
        timeout_ms: int,
    ) -> Any:
        """Send ``message`` as ``request_if_offered`` does, but return None as well if ``suits`` is
        false of the rows in the controller's ApiVersions."""
        return await self._request(
            _key_of(message), (version, version), lambda _: message, suits, timeout_ms
        )

    async def request_in_highest_version(
        self, api_key: int, highest: int, make: Callable[[int], Message], timeout_ms: int
    ) -> Any:
        """Send what ``make`` returns for the highest version up to ``highest`` that the ApiVersions
        of the controller has; return None if there is none. Raises as ``request``."""
        return await self._request(api_key, (0, highest), make, _any_controller, timeout_ms)

    async def _request(
        self,
        api_key: int,
        versions: tuple[int, int],
        make: Callable[[int], Message],
        suits: Callable[[Iterable[ApiVersion]], bool] | None,
        timeout_ms: int,
    ) -> Any:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        await self._queue.put(_Queued(api_key, versions, make, suits, deadline_ms, reply))
        return await reply

    @property
    def waiting(self) -> int:
        """How many requests have no response yet."""
        return self._queue.qsize() + (self._current is not None)

    async def _send_all(self) -> None:
        try:
            while True:
                queued = self._current = await self._queue.get()
                try:
                    response = await self._send(queued)
                except TimeoutError as error:
                    if not queued.reply.done():
                        queued.reply.set_exception(error)
                else:
                    if not queued.reply.done():
                        queued.reply.set_result(response)
                self._current = None
        finally:
            self._give_up()

    def _give_up(self) -> None:
        left = [] if self._current is None else [self._current]
        while not self._queue.empty():
            left.append(self._queue.get_nowait())
        for queued in left:
            if not queued.reply.done():
                queued.reply.set_exception(ConnectionError("this broker is stopping"))

    async def _send(self, queued: _Queued) -> Any:
        attempts = 0
        while True:
            left_ms = queued.deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError("the controller did not respond")
            timeout_ms = min(left_ms, self._config.controller_socket_timeout_ms)
            try:
                channel = await self._connect(timeout_ms)
                version: int | None = queued.versions[1]
                if queued.suits is not None:
                    version = await self._highest_offered(channel, queued, timeout_ms)
                if version is None:
                    return None
                return await channel.request(queued.make(version), version, timeout_ms)
            except (ConnectionError, TimeoutError) as error:
                self._log.info("controller_not_reached", error=str(error), attempts=attempts + 1)
                self._disconnect()
            await self._clock.sleep(self._backoff.delay_ms(attempts, self._entropy.random()))
            attempts += 1

    async def _highest_offered(
        self, channel: Channel, queued: _Queued, timeout_ms: int
    ) -> int | None:
        if self._offers is None:
            response = await channel.request(ApiVersionsRequest(), 0, timeout_ms)
            self._offers = {row.api_key: row for row in response.api_keys}
        row = self._offers.get(queued.api_key)
        if row is None or queued.suits is None or not queued.suits(self._offers.values()):
            return None
        lowest, highest = queued.versions
        version = min(highest, row.max_version)
        return version if version >= max(lowest, row.min_version) else None

    async def _connect(self, timeout_ms: int) -> Channel:
        """Return the open channel to the current controller, or connect. Raises ConnectionError,
        TimeoutError."""
        controller = self._cache.controller_id
        if controller is None:
            raise ConnectionError("the controller is not known")
        if self._channel is not None and self._channel.is_open and controller == self._controller:
            return self._channel
        self._disconnect()
        endpoint = self._cache.endpoint(controller, self._config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"the controller, broker {controller}, is not alive")
        self._controller = controller
        opening = self._opening = asyncio.create_task(self._open(endpoint, timeout_ms))
        try:
            await asyncio.wait([opening])
        finally:
            opening.cancel()
            self._opening = None
        if not opening.cancelled():
            opening.result()  # raises the error of the connection
        if self._channel is None or self._cache.controller_id != controller:
            raise ConnectionError(f"broker {controller} is no longer the controller")
        return self._channel

    async def _open(self, endpoint: Endpoint, timeout_ms: int) -> None:
        self._channel = await Channel.open(
            self._network,
            self._clock,
            endpoint.host,
            endpoint.port,
            f"broker-{self._broker_id}-to-controller",
            ChannelConfig(connection_setup_timeout_ms=timeout_ms, max_in_flight=1),
            self._log,
        )

    def _leave_old_controller(self) -> None:
        if self._cache.controller_id == self._controller:
            return
        if self._opening is not None:
            self._opening.cancel()
        self._disconnect()

    def _disconnect(self) -> None:
        self._offers = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _any_controller(_: Iterable[ApiVersion]) -> bool:
    return True


def _key_of(message: Message) -> int:
    api_key = message.SPEC.api_key
    assert api_key is not None, "only requests are sent"
    return api_key
