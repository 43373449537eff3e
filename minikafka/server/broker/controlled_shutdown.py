"""Controlled shutdown: a stopping broker asks the controller to move its leaderships away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from minikafka.server.broker.metadata.cache import MetadataCache

RESPONSES_LIMIT_MS = 30_000  # for all attempts together, without the back-off between them
CHECK_INTERVAL_S = 0.1  # how often to check whether to stop waiting
METADATA_LIMIT_MS = 1_000  # for the new leaders to arrive in the metadata cache
METADATA_CHECK_MS = 10
# The time for other brokers to receive the new leaders. Meanwhile this broker responds with
# NOT_LEADER_OR_FOLLOWER, so that clients refresh their metadata.
LINGER_MS = 100


@dataclass(frozen=True, slots=True)
class ControlledShutdownConfig:
    """Kafka's ``controlled.shutdown.*`` keys. ``controller_socket_timeout_ms`` bounds each
    attempt."""

    enable: bool = True
    max_retries: int = 3
    retry_backoff_ms: int = 5_000
    controller_socket_timeout_ms: int = 30_000
    inter_broker_listener: str = "PLAINTEXT"
    inter_broker_protocol: InterBrokerProtocol = LATEST

    @property
    def limit_ms(self) -> int:
        """The longest time that a controlled shutdown may take."""
        return RESPONSES_LIMIT_MS + max(0, self.max_retries - 1) * self.retry_backoff_ms


class ShutdownHandover:
    """Requests a controlled shutdown (Kafka's ``KafkaServer.controlledShutdown``).

    Each attempt uses a new connection, and ends in one of these cases:

    A. Success: no error, and this broker leads no replicated partition.
    B. The controller returned an error, or leaderships remain. The next attempt follows after the
       back-off.
    C. No controller is known or reachable, or another one was elected before the response. The next
       attempt follows as in B.
    D. The time limit has passed, or the caller gives up.

    The broker stops in every case.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        cache: MetadataCache,
        broker_id: int,
        config: ControlledShutdownConfig,
    ) -> None:
        self._network = network
        self._clock = clock
        self._cache = cache
        self._broker_id = broker_id
        self._config = config
        self._version = config.inter_broker_protocol.controlled_shutdown_version
        self._log = event_log("kafka-shutdown-hook", broker=broker_id)

    async def run_while(self, possible: Callable[[], bool], broker_epoch: int) -> bool:
        """Call ``run``, but give up when ``possible`` returns False or after ``limit_ms``. Returns
        as ``run``."""
        deadline_ms = self._clock.monotonic_ms() + self._config.limit_ms
        running = asyncio.create_task(self.run(broker_epoch), name="kafka-shutdown-hook")
        try:
            while not running.done():
                late = self._clock.monotonic_ms() >= deadline_ms
                if late or not possible():  # case D
                    self._log.warning("controlled_shutdown_failed", out_of_time=late)
                    return False
                await asyncio.wait([running], timeout=CHECK_INTERVAL_S)
            return running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def run(self, broker_epoch: int) -> bool:
        """Attempt the shutdown up to ``max_retries`` times. True if the controller has moved all
        leaderships away."""
        if not self._config.enable:
            return False
        was_leader = self._leads()
        for attempt in range(1, self._config.max_retries + 1):
            if attempt > 1:
                await self._clock.sleep(self._config.retry_backoff_ms)
            try:
                response = await self._request(broker_epoch)
            except (OSError, TimeoutError) as error:  # case C
                self._log.warning("controller_not_reached", attempt=attempt, error=str(error))
                continue
            if (
                response.error_code == ErrorCode.NONE and not response.remaining_partitions
            ):  # case A
                self._log.info("controlled_shutdown_succeeded", attempt=attempt)
                if was_leader:
                    await self._await_new_leaders()
                return True
            self._log.warning(  # case B
                "controlled_shutdown_refused",
                attempt=attempt,
                error=ErrorCode(response.error_code).name,
                remaining=len(response.remaining_partitions),
            )
        self._log.warning("controlled_shutdown_failed", attempts=self._config.max_retries)
        return False

    def _leads(self) -> bool:
        """Whether the metadata cache has this broker as leader of a replicated partition."""
        return any(
            state.leader == self._broker_id and len(state.replicas) > 1
            for partitions in self._cache.image.topics.values()
            for state in partitions.values()
        )

    async def _await_new_leaders(self) -> None:
        """Continue to serve until the new leaders are known, and a little longer.

        The controller responds before it has sent LeaderAndIsr and UpdateMetadata. A client whose
        connection is closed that early gets the old leader from its next Metadata request, and
        backs off for up to a second. One that gets NOT_LEADER_OR_FOLLOWER meanwhile finds the new
        leader at once.
        """
        deadline_ms = self._clock.monotonic_ms() + METADATA_LIMIT_MS
        while self._leads() and self._clock.monotonic_ms() < deadline_ms:
            await self._clock.sleep(METADATA_CHECK_MS)
        await self._clock.sleep(LINGER_MS)

    async def _request(self, broker_epoch: int) -> ControlledShutdownResponse:
        """Send the request to the current controller. Raises OSError and TimeoutError; also when
        another controller is elected before the response."""
        controller = self._cache.controller_id
        if controller is None:
            raise ConnectionError("the controller is not known")
        endpoint = self._cache.endpoint(controller, self._config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"the controller, broker {controller}, is not alive")
        requesting = asyncio.create_task(self._exchange(endpoint, broker_epoch))
        try:
            while not requesting.done():
                if self._cache.controller_id != controller:
                    raise ConnectionError(f"broker {controller} is not the controller any more")
                await asyncio.wait([requesting], timeout=CHECK_INTERVAL_S)
            return requesting.result()
        finally:
            requesting.cancel()
            await asyncio.wait([requesting])

    async def _exchange(self, endpoint: Endpoint, broker_epoch: int) -> ControlledShutdownResponse:
        """Send one request on a new connection. Raises OSError and TimeoutError."""
        timeout_ms = self._config.controller_socket_timeout_ms
        channel = await Channel.open(
            self._network,
            self._clock,
            endpoint.host,
            endpoint.port,
            f"broker-{self._broker_id}-shutdown",
            ChannelConfig(connection_setup_timeout_ms=timeout_ms, max_in_flight=1),
        )
        try:
            request = ControlledShutdownRequest(
                broker_id=self._broker_id, broker_epoch=broker_epoch
            )
            response: ControlledShutdownResponse = await channel.request(
                request, self._version, timeout_ms
            )
            return response
        finally:
            channel.close()
