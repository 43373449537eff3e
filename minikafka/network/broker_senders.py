"""Requests to other brokers, made of what has piled up for each since the last one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.schema import Message

T = TypeVar("T")

# Of one request; the rest goes with the next.
MAX_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class SenderConfig:
    """``client_id`` names the sender to the other end; ``request_timeout_ms`` bounds a connection
    and a request, each."""

    client_id: str
    request_timeout_ms: int = 30_000


class BrokerSenders(Generic[T]):
    """One connection and one request at a time to each broker, while there is something to send.

    ``address`` of a broker, None while it is not alive. ``request_of`` makes a request and its
    version of items, of which no two have the same ``key``. ``answered`` hears of every item
    exactly once: with the response, or with None when there was none, and then nobody knows whether
    the request was carried out. Whoever puts items bounds their number.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        config: SenderConfig,
        address: Callable[[int], tuple[str, int] | None],
        key: Callable[[T], Hashable],
        request_of: Callable[[Sequence[T]], tuple[Message, int]],
        answered: Callable[[Sequence[T], Any], None],
        log: EventLog,
    ) -> None:
        self._network = network
        self._clock = clock
        self._config = config
        self._address = address
        self._key = key
        self._request_of = request_of
        self._answered = answered
        self._log = log
        self._queues: dict[int, deque[T]] = {}
        self._channels: dict[int, tuple[tuple[str, int], Channel]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        """Send nothing more; nobody hears of what is left."""
        self._closed = True
        for task in self._sending.values():
            task.cancel()
        for _, channel in self._channels.values():
            channel.close()

    @property
    def queued(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def put(self, broker_id: int, item: T) -> None:
        assert self._tasks is not None, "after start"
        if self._closed:
            return
        self._queues.setdefault(broker_id, deque()).append(item)
        if broker_id not in self._sending:
            name = f"{self._config.client_id}-to-{broker_id}"
            self._sending[broker_id] = self._tasks.create_task(self._send(broker_id), name=name)

    async def _send(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        try:
            while queue:
                items = self._take(queue)
                message, version = self._request_of(items)
                response = None
                try:
                    channel = await self._connect(broker_id)
                    response = await channel.request(
                        message, version, self._config.request_timeout_ms
                    )
                except (ConnectionError, TimeoutError) as error:
                    self._disconnect(broker_id)
                    self._log.info(
                        "request_failed",
                        kind=type(message).__name__,
                        broker=broker_id,
                        error=str(error),
                    )
                self._answered(items, response)
        finally:
            del self._sending[broker_id]

    def _take(self, queue: deque[T]) -> list[T]:
        """From the front; a second one of a key stays, before all that came after it."""
        taken: dict[Hashable, T] = {}
        left: list[T] = []
        while queue and len(taken) < MAX_ITEMS:
            item = queue.popleft()
            key = self._key(item)
            if key in taken:
                left.append(item)
            else:
                taken[key] = item
        queue.extendleft(reversed(left))
        return list(taken.values())

    async def _connect(self, broker_id: int) -> Channel:
        """Raises ConnectionError, TimeoutError."""
        address = self._address(broker_id)
        known = self._channels.get(broker_id)
        if known is not None and known[0] == address and known[1].is_open:
            return known[1]
        self._disconnect(broker_id)
        if address is None:
            raise ConnectionError(f"broker {broker_id} is not alive")
        timeout_ms = self._config.request_timeout_ms
        channel = await Channel.open(
            self._network,
            self._clock,
            *address,
            self._config.client_id,
            ChannelConfig(connection_setup_timeout_ms=timeout_ms, max_in_flight=1),
            self._log,
        )
        self._channels[broker_id] = (address, channel)
        return channel

    def _disconnect(self, broker_id: int) -> None:
        known = self._channels.pop(broker_id, None)
        if known is not None:
            known[1].close()
