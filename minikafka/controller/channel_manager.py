"""The controller's connections: an ordered queue, a sender task and a channel for each broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from minikafka.controller.config import ControllerConfig
from minikafka.core.controller.answers import answer_event
from minikafka.core.controller.events import BrokerUnresponsive, ControllerEvent
from minikafka.core.controller.older_versions import for_version
from minikafka.core.controller.request_batch import BrokerRequest, ControlRequest
from minikafka.kernel.cluster import Broker
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.registry import version_range
from minikafka.protocol.messages.stop_replica import StopReplicaResponse
from minikafka.protocol.schema import Message

# Answered by every broker since 0.10, whatever else it speaks.
OLDEST_VERSION = 0


class PlainChannel(Protocol):
    """What is needed of a connection."""

    async def request(self, message: Message, version: int, timeout_ms: int) -> Any: ...

    def close(self) -> None: ...


class SpokenChannel:
    """Kafka goes by ``inter.broker.protocol.version``; here each broker says what it speaks, so
    that brokers of several versions, Kafka's among them, live in one cluster."""

    def __init__(self, channel: PlainChannel, newest: Mapping[int, int]) -> None:
        """``newest``: the newest version of each API that the broker speaks."""
        self._channel = channel
        self._newest = newest

    @classmethod
    async def ask(cls, channel: PlainChannel, timeout_ms: int) -> SpokenChannel:
        """Raises ConnectionError, TimeoutError; then the connection is closed."""
        try:
            answer = await channel.request(ApiVersionsRequest(), OLDEST_VERSION, timeout_ms)
        except BaseException:
            channel.close()
            raise
        return cls(channel, {row.api_key: row.max_version for row in answer.api_keys})

    def close(self) -> None:
        self._channel.close()

    async def request(self, message: ControlRequest, version: int, timeout_ms: int) -> Any:
        """Not above ``version``. Raises ConnectionError, TimeoutError."""
        assert message.SPEC.api_key is not None
        version = min(version, self._newest.get(message.SPEC.api_key, version))
        answers = [
            await self._channel.request(one, version, timeout_ms)
            for one in for_version(message, version)
        ]
        return answers[0] if len(answers) == 1 else _merged(answers)


def _merged(answers: list[StopReplicaResponse]) -> StopReplicaResponse:
    """Only a StopReplica becomes several requests, or (with no partition) none."""
    codes = [answer.error_code for answer in answers if answer.error_code]
    errors = [error for answer in answers for error in answer.partition_errors]
    return StopReplicaResponse(codes[0] if codes else 0, errors)


# A broker that is this far behind is told everything anew instead.
MAX_QUEUED_REQUESTS = 10_000
RETRY_BACKOFF_MS = 100


class ControlChannel(Protocol):
    """What is needed of a connection to a broker."""

    async def request(self, message: ControlRequest, version: int, timeout_ms: int) -> Any:
        """In ``version``, or an older one that the broker speaks."""
        ...

    def close(self) -> None: ...


Connect: TypeAlias = Callable[[Broker], Awaitable[ControlChannel]]


def connector(network: Network, clock: Clock, config: ControllerConfig) -> Connect:
    """Connects to a broker's inter-broker listener, the controller's own broker included."""

    async def connect(broker: Broker) -> ControlChannel:
        endpoint = broker.endpoint(config.inter_broker_listener_name)
        if endpoint is None:
            raise ConnectionError(
                f"broker {broker.id} has no listener {config.inter_broker_listener_name}"
            )
        # One request at a time: a broker takes the controller's orders in their order.
        channel = await Channel.open(
            network,
            clock,
            endpoint.host,
            endpoint.port,
            client_id=str(config.broker_id),
            config=ChannelConfig(max_in_flight=1),
        )
        return await SpokenChannel.ask(channel, config.controller_socket_timeout_ms)

    return connect


class _Peer:
    """A broker, what it still has to be told, and the task that tells it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        # With the moment when each was put here; at most MAX_QUEUED_REQUESTS.
        self.queue: deque[tuple[int, ControlRequest]] = deque()
        self.arrival = asyncio.Event()
        self.channel: ControlChannel | None = None
        self.troubled = False
        self.task: asyncio.Task[None] | None = None

    async def next_request(self) -> tuple[int, ControlRequest]:
        while not self.queue:
            self.arrival.clear()
            await self.arrival.wait()
        return self.queue.popleft()

    def hang_up(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class ControllerChannels:
    """Every broker gets its requests in order, each until it is answered or the broker has gone
    from the live ones. Answers come back as events (Kafka's ControllerChannelManager)."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        config: ControllerConfig,
        put: Callable[[ControllerEvent], None],
        metrics: Metrics,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._config = config
        self._put = put
        self._metrics = metrics
        self._tasks: asyncio.TaskGroup | None = None
        self._peers: dict[int, _Peer] = {}
        self._log = event_log("controller-channels", controller=config.broker_id)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """``tasks`` is where the sender tasks will live."""
        self._tasks = tasks
        self._metrics.gauge(
            "kafka.controller:TotalQueueSize",
            lambda: sum(len(peer.queue) for peer in self._peers.values()),
        )

    def facts(self) -> list[dict[str, Any]]:
        """Each live broker, what it has not been told yet, and whether it does not answer."""
        return [
            {"broker": broker_id, "queue": len(peer.queue), "troubled": peer.troubled}
            for broker_id, peer in sorted(self._peers.items())
        ]

    def add_broker(self, broker: Broker) -> None:
        """A live broker; one that is known already keeps its queue."""
        assert self._tasks is not None, "channels were not started"
        if broker.id in self._peers:
            self._peers[broker.id].broker = broker
            return
        peer = _Peer(broker)
        self._peers[broker.id] = peer
        self._metrics.gauge(
            f"kafka.controller:QueueSize,broker-id={broker.id}",
            lambda: self._queue_size(broker.id),
        )
        peer.task = self._tasks.create_task(
            self._send_all(peer),
            name=f"Controller-{self._config.broker_id}-to-broker-{broker.id}-send-thread",
        )

    def _queue_size(self, broker_id: int) -> int:
        peer = self._peers.get(broker_id)
        return len(peer.queue) if peer is not None else 0

    def update_broker(self, broker: Broker) -> None:
        """A live broker's endpoints changed: the next connection goes there."""
        if broker.id in self._peers:
            self._peers[broker.id].broker = broker

    async def remove_broker(self, broker_id: int) -> None:
        """A broker is gone, and what it was not told with it."""
        peer = self._peers.pop(broker_id, None)
        if peer is None or peer.task is None:
            return
        peer.task.cancel()
        await asyncio.wait([peer.task])
        peer.hang_up()

    async def shutdown(self) -> None:
        """This broker is not the controller any more."""
        for broker_id in sorted(self._peers):
            await self.remove_broker(broker_id)

    def send(self, request: BrokerRequest) -> None:
        """Queue a request. Nothing happens when the broker is not live."""
        peer = self._peers.get(request.broker_id)
        if peer is None:
            self._log.warning(
                "request_not_sent",
                kind=type(request.message).__name__,
                broker=request.broker_id,
                reason="offline",
            )
            return
        if len(peer.queue) >= MAX_QUEUED_REQUESTS:
            peer.queue.clear()
            self._log.warning("broker_unresponsive", broker=request.broker_id)
            self._put(BrokerUnresponsive(request.broker_id))
            return
        peer.queue.append((self._clock.monotonic_ms(), request.message))
        peer.arrival.set()

    # ----------------------------------------------------------------------------------- sender

    async def _send_all(self, peer: _Peer) -> None:
        prefix = f"kafka.controller:RequestRateAndQueueTimeMs,broker-id={peer.broker.id}"
        count = self._metrics.counter(f"{prefix}.count")
        total = self._metrics.counter(f"{prefix}.total")
        while True:
            since_ms, request = await peer.next_request()
            count.mark()
            total.mark(self._clock.monotonic_ms() - since_ms)
            response = await self._deliver(peer, request)
            event = answer_event(peer.broker.id, request, response)
            if event is not None:
                self._put(event)

    async def _deliver(self, peer: _Peer, request: ControlRequest) -> Any:
        """Send until it is answered; whoever removes the broker cancels this."""
        assert request.SPEC.api_key is not None
        _, newest = version_range(request.SPEC.api_key)
        version = self._config.release.at_most(request.SPEC.api_key, newest)
        while True:
            try:
                if peer.channel is None:
                    peer.channel = await self._connect(peer.broker)
                    self._log.info("connected", broker=peer.broker.id)
                response = await peer.channel.request(
                    request, version, self._config.controller_socket_timeout_ms
                )
            except (ConnectionError, TimeoutError) as error:
                peer.hang_up()
                if not peer.troubled:  # once, not at every try
                    self._log.warning(
                        "request_failed_reconnecting",
                        kind=type(request).__name__,
                        broker=peer.broker.id,
                        error=str(error),
                    )
                peer.troubled = True
                await self._clock.sleep(RETRY_BACKOFF_MS)
            else:
                peer.troubled = False
                return response
