"""The controller's channels: a request queue, a sender task and a connection for each broker.

A broker receives the controller's requests one at a time and in order. A request that fails is sent
again until the broker responds or is removed from the live brokers. Responses become events on the
controller's queue.

``inter.broker.protocol.version`` decides the versions of requests, as in Kafka. A broker that does
not support such a version (ApiVersions) gets the newest that it supports. So brokers of several
releases, Kafka's included, can form one cluster even if the controller's protocol is too new.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from minikafka.core.controller.events import BrokerUnresponsive, ControllerEvent, response_event
from minikafka.core.controller.request_batch import (
    BrokerRequest,
    ControlRequest,
    for_version,
    request_version,
)
from minikafka.kernel.cluster import Broker
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.stop_replica import StopReplicaResponse
from minikafka.server.controller.config import ControllerConfig

# The version of the ApiVersions request: every broker since Kafka 0.10 supports it.
OLDEST_VERSION = 0
# A broker that is this far behind is treated as restarted: it gets the current state instead.
MAX_QUEUED_REQUESTS = 10_000
_GROUP = "kafka.controller:type=ControllerChannelManager"
RETRY_BACKOFF_MS = 100


class VersionedChannel:
    """A channel to one broker that sends each request in a version that the broker supports."""

    def __init__(self, channel: Channel, newest: Mapping[int, int]) -> None:
        """``newest`` maps an API key to the newest version that the broker supports."""
        self._channel = channel
        self._newest = newest

    @classmethod
    async def negotiate(cls, channel: Channel, timeout_ms: int) -> VersionedChannel:
        """Send ApiVersions and wrap ``channel``. Raises ConnectionError or TimeoutError after
        closing the channel."""
        try:
            response = await channel.request(ApiVersionsRequest(), OLDEST_VERSION, timeout_ms)
        except BaseException:
            channel.close()
            raise
        return cls(channel, {row.api_key: row.max_version for row in response.api_keys})

    def close(self) -> None:
        self._channel.close()

    async def request(self, message: ControlRequest, version: int, timeout_ms: int) -> Any:
        """Send a request in ``version``, or in the newest older version that the broker supports;
        return the response. Raises ConnectionError, TimeoutError."""
        assert message.SPEC.api_key is not None
        version = min(version, self._newest.get(message.SPEC.api_key, version))
        responses = [
            await self._channel.request(one, version, timeout_ms)
            for one in for_version(message, version)
        ]
        return responses[0] if len(responses) == 1 else _merged(responses)


def _merged(responses: list[StopReplicaResponse]) -> StopReplicaResponse:
    """Merge the responses of one StopReplica. It is the only request that ``for_version`` may split
    into two requests, or into none if it names no partition."""
    codes = [response.error_code for response in responses if response.error_code]
    errors = [error for response in responses for error in response.partition_errors]
    return StopReplicaResponse(codes[0] if codes else 0, errors)


Connect: TypeAlias = Callable[[Broker], Awaitable[VersionedChannel]]


def connector(
    network: Network, clock: Clock, config: ControllerConfig, control_network: Network | None = None
) -> Connect:
    """Return the function that opens a channel to a broker's control-plane listener with
    ``control_network``, or to its inter-broker listener. The controller also connects to its own
    broker in this way.

    A broker without a control-plane listener may still be in the cluster while its brokers get one.
    Kafka's controller does not connect to it."""

    async def connect(broker: Broker) -> VersionedChannel:
        endpoint, used = broker.endpoint(config.inter_broker_listener_name), network
        if config.control_plane_listener_name is not None and control_network is not None:
            control_plane = broker.endpoint(config.control_plane_listener_name)
            if control_plane is not None:
                endpoint, used = control_plane, control_network
        if endpoint is None:
            raise ConnectionError(
                f"broker {broker.id} has no listener {config.inter_broker_listener_name}"
            )
        # With one request in flight, the broker handles the controller's requests in order.
        channel = await Channel.open(
            used,
            clock,
            endpoint.host,
            endpoint.port,
            client_id=str(config.broker_id),
            config=ChannelConfig(max_in_flight=1),
        )
        return await VersionedChannel.negotiate(channel, config.controller_socket_timeout_ms)

    return connect


class _Peer:
    """A live broker, the requests that it has not received yet, and the task that sends them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        # Each request with the time in ms when it was queued; at most MAX_QUEUED_REQUESTS.
        self.queue: deque[tuple[int, ControlRequest]] = deque()
        self.arrival = asyncio.Event()
        self.channel: VersionedChannel | None = None
        self.failing = False  # the last attempt to send failed
        self.task: asyncio.Task[None] | None = None

    async def next_request(self) -> tuple[int, ControlRequest]:
        while not self.queue:
            self.arrival.clear()
            await self.arrival.wait()
        return self.queue.popleft()

    def disconnect(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class ControllerChannels:
    """Sends the controller's requests to all live brokers (Kafka's ControllerChannelManager)."""

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
        """Register the metrics. The sender tasks will belong to ``tasks``."""
        self._tasks = tasks
        self._metrics.gauge(
            f"{_GROUP},name=TotalQueueSize",
            lambda: sum(len(peer.queue) for peer in self._peers.values()),
        )

    def facts(self) -> list[dict[str, Any]]:
        """Return the queue size of each live broker, and whether sending to it fails."""
        return [
            {"broker": broker_id, "queue": len(peer.queue), "troubled": peer.failing}
            for broker_id, peer in sorted(self._peers.items())
        ]

    def add_broker(self, broker: Broker) -> None:
        """Start a queue and a sender for a live broker. A known broker keeps its queue."""
        assert self._tasks is not None, "call start() before add_broker()"
        if broker.id in self._peers:
            self._peers[broker.id].broker = broker
            return
        peer = _Peer(broker)
        self._peers[broker.id] = peer
        self._metrics.gauge(
            f"{_GROUP},name=QueueSize,broker-id={broker.id}",
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
        """Use the broker's new endpoints for the next connection."""
        if broker.id in self._peers:
            self._peers[broker.id].broker = broker

    async def remove_broker(self, broker_id: int) -> None:
        """Drop the queue of a broker that is not alive any more, and close its channel."""
        peer = self._peers.pop(broker_id, None)
        if peer is None or peer.task is None:
            return
        # The traceback of the cancellation refers to the peer: no cycle may be left.
        task, peer.task = peer.task, None
        task.cancel()
        await asyncio.wait([task])
        peer.disconnect()

    async def shutdown(self) -> None:
        """Remove all brokers: this broker is not the controller any more."""
        for broker_id in sorted(self._peers):
            await self.remove_broker(broker_id)

    def send(self, request: BrokerRequest) -> None:
        """Queue a request. A request to a broker that is not alive is dropped with a warning. If
        the queue is full, it is dropped and the controller handles ``BrokerUnresponsive``."""
        peer = self._peers.get(request.broker_id)
        if peer is None:
            self._log.warning(
                "request_not_sent",
                kind=type(request.message).__name__,
                target_broker=request.broker_id,
                reason="offline",
            )
            return
        if len(peer.queue) >= MAX_QUEUED_REQUESTS:
            peer.queue.clear()
            self._log.warning("broker_queue_overflowed", target_broker=request.broker_id)
            self._put(BrokerUnresponsive(request.broker_id))
            return
        peer.queue.append((self._clock.monotonic_ms(), request.message))
        peer.arrival.set()

    # ----------------------------------------------------------------------------------- sender

    async def _send_all(self, peer: _Peer) -> None:
        times_ms = self._metrics.histogram(
            f"{_GROUP},name=RequestRateAndQueueTimeMs,broker-id={peer.broker.id}"
        )
        while True:
            since_ms, request = await peer.next_request()
            times_ms.record(self._clock.monotonic_ms() - since_ms)
            response = await self._deliver(peer, request)
            event = response_event(peer.broker.id, request, response)
            if event is not None:
                self._put(event)

    async def _deliver(self, peer: _Peer, request: ControlRequest) -> Any:
        """Send a request until there is a response. ``remove_broker`` cancels this task."""
        version = request_version(request, self._config.inter_broker_protocol)
        while True:
            try:
                if peer.channel is None:
                    peer.channel = await self._connect(peer.broker)
                    self._log.info("broker_connected", target_broker=peer.broker.id)
                response = await peer.channel.request(
                    request, version, self._config.controller_socket_timeout_ms
                )
            except (ConnectionError, TimeoutError) as error:
                peer.disconnect()
                if not peer.failing:  # log the first failure only
                    self._log.warning(
                        "request_failed_reconnecting",
                        kind=type(request).__name__,
                        target_broker=peer.broker.id,
                        error=str(error),
                    )
                peer.failing = True
                await self._clock.sleep(RETRY_BACKOFF_MS)
            else:
                peer.failing = False
                return response
