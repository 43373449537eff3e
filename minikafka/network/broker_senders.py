"""One sender for each other broker: batches queued items into one request at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.schema import Message

T = TypeVar("T")

MAX_ITEMS = 1_000  # of one request; further items wait for the next request


@dataclass(frozen=True, slots=True)
class BrokerSenderConfig:
    """``client_id`` is the client id of the requests. ``request_timeout_ms`` is the time-out of a
    connection attempt, and also of a request."""

    client_id: str
    request_timeout_ms: int = 30_000


class BrokerSenders(Generic[T]):
    """Send queued items to brokers over one connection with one request in flight to each.

    ``address`` returns a broker's host and port, or None while the broker is not alive.
    ``request_of`` builds a request and its version from items with distinct ``key``s and the same
    ``batch``: a request cannot mix others. ``completed`` is called exactly once with each item:
    with the response, or with None if there was no response, in which case the broker may or may
    not have carried out the request. The queues have no limit here; the caller of ``put`` bounds
    the number of items.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        config: BrokerSenderConfig,
        address: Callable[[int], tuple[str, int] | None],
        key: Callable[[T], Hashable],
        request_of: Callable[[Sequence[T]], tuple[Message, int]],
        completed: Callable[[Sequence[T], Any], None],
        log: EventLog,
        batch: Callable[[T], Hashable] = lambda item: None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._config = config
        self._address = address
        self._key = key
        self._batch = batch
        self._request_of = request_of
        self._completed = completed
        self._log = log
        self._queues: dict[int, deque[T]] = {}
        self._channels: dict[int, tuple[tuple[str, int], Channel]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        """Stop sending. ``completed`` is not called for the items that are left."""
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
                        target_broker=broker_id,
                        error=str(error),
                    )
                self._completed(items, response)
        finally:
            del self._sending[broker_id]

    def _take(self, queue: deque[T]) -> list[T]:
        """Take items of the first one's batch from the front of the queue, at most one for each
        key. Skipped items keep their order and their place in front of the items behind them."""
        taken: dict[Hashable, T] = {}
        left: list[T] = []
        batch = self._batch(queue[0])
        while queue and len(taken) < MAX_ITEMS and len(left) < MAX_ITEMS:
            item = queue.popleft()
            key = self._key(item)
            if key in taken or self._batch(item) != batch:
                left.append(item)
            else:
                taken[key] = item
        queue.extendleft(reversed(left))
        return list(taken.values())

    async def _connect(self, broker_id: int) -> Channel:
        """Return an open channel to the broker. Raises ConnectionError, TimeoutError."""
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
