"""Controlled shutdown: before it stops, a broker has the controller move its leaderships away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from minikafka.protocol.releases import Release

CONTROLLED_SHUTDOWN_VERSION = 3
ANSWERS_LIMIT_MS = 30_000  # for all attempts together, the back-off between them not counted
LOOK_S = 0.1  # how often to check whether waiting still makes sense
NEWS_LIMIT_MS = 1_000  # for the new leaders to be known here
NEWS_LOOK_MS = 10
LINGER_MS = 100  # in which they become known elsewhere, and clients are told to look for them


@dataclass(frozen=True, slots=True)
class ControlledShutdownConfig:
    """Kafka's ``controlled.shutdown.*`` keys; the socket time-out bounds each attempt."""

    enable: bool = True
    max_retries: int = 3
    retry_backoff_ms: int = 5_000
    controller_socket_timeout_ms: int = 30_000
    inter_broker_listener: str = "PLAINTEXT"
    release: Release = Release.KAFKA_3_9

    @property
    def limit_ms(self) -> int:
        """The longest that a broker waits for its controlled shutdown."""
        return ANSWERS_LIMIT_MS + max(0, self.max_retries - 1) * self.retry_backoff_ms


class ShutdownHandover:
    """Kafka's ``KafkaServer.controlledShutdown``: several attempts, each on a new connection.

    A. Success: no error, and this broker leads no partition any more.
    B. Refused, or partitions remain: the next attempt follows after the back-off.
    C. No controller is known or reachable, or another one is elected while it is silent: as B.
    D. The time is up, or the caller gives up. The broker stops in any case.
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
        self._version = config.release.at_most(
            ApiKey.CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION
        )
        self._log = event_log("kafka-shutdown-hook", broker=broker_id)

    async def run_while(self, possible: Callable[[], bool], broker_epoch: int) -> bool:
        """As ``run``, but not longer than ``possible`` says yes, nor than ``limit_ms``."""
        deadline_ms = self._clock.monotonic_ms() + self._config.limit_ms
        running = asyncio.create_task(self.run(broker_epoch), name="kafka-shutdown-hook")
        try:
            while not running.done():
                late = self._clock.monotonic_ms() >= deadline_ms
                if late or not possible():  # case D
                    self._log.warning("unclean_shutdown", out_of_time=late)
                    return False
                await asyncio.wait([running], timeout=LOOK_S)
            return running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def run(self, broker_epoch: int) -> bool:
        """Whether the controller has relieved this broker of everything."""
        if not self._config.enable:
            return False
        was_leader = self._leads()
        for attempt in range(1, self._config.max_retries + 1):
            if attempt > 1:
                await self._clock.sleep(self._config.retry_backoff_ms)
            try:
                answer = await self._ask(broker_epoch)
            except (OSError, TimeoutError) as error:  # case C
                self._log.warning("controller_not_reached", attempt=attempt, error=str(error))
                continue
            if answer.error_code == ErrorCode.NONE and not answer.remaining_partitions:  # case A
                self._log.info("controlled_shutdown_succeeded", attempt=attempt)
                if was_leader:
                    await self._let_clients_look()
                return True
            self._log.warning(  # case B
                "controlled_shutdown_refused",
                attempt=attempt,
                error=ErrorCode(answer.error_code).name,
                remaining=len(answer.remaining_partitions),
            )
        self._log.warning("unclean_shutdown", attempts=self._config.max_retries)
        return False

    def _leads(self) -> bool:
        """Whether this broker leads a partition with other replicas, by the metadata cache."""
        return any(
            state.leader == self._broker_id and len(state.replicas) > 1
            for partitions in self._cache.image.topics.values()
            for state in partitions.values()
        )

    async def _let_clients_look(self) -> None:
        """Continue to serve until the new leaders are known, and a little longer.

        The controller responds before it has sent LeaderAndIsr and UpdateMetadata. A client whose
        connection is closed that early gets the old leader from its next Metadata request, and
        backs off for up to a second. One that gets NOT_LEADER_OR_FOLLOWER meanwhile finds the new
        leader at once.
        """
        deadline_ms = self._clock.monotonic_ms() + NEWS_LIMIT_MS
        while self._leads() and self._clock.monotonic_ms() < deadline_ms:
            await self._clock.sleep(NEWS_LOOK_MS)
        await self._clock.sleep(LINGER_MS)

    async def _ask(self, broker_epoch: int) -> ControlledShutdownResponse:
        """Raises OSError and TimeoutError."""
        controller = self._cache.controller_id
        if controller is None:
            raise ConnectionError("the controller is not known")
        endpoint = self._cache.endpoint(controller, self._config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"the controller, broker {controller}, is not alive")
        asking = asyncio.create_task(self._exchange(endpoint, broker_epoch))
        try:
            while not asking.done():
                if self._cache.controller_id != controller:
                    raise ConnectionError(f"broker {controller} is not the controller any more")
                await asyncio.wait([asking], timeout=LOOK_S)
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    async def _exchange(self, endpoint: Endpoint, broker_epoch: int) -> ControlledShutdownResponse:
        """One request on a new connection. Raises OSError and TimeoutError."""
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
            answer: ControlledShutdownResponse = await channel.request(
                request, self._version, timeout_ms
            )
            return answer
        finally:
            channel.close()
