"""How a broker that stops asks the controller to move its leaderships away first."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.broker.metadata_cache import MetadataCache
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, Network
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

CONTROLLED_SHUTDOWN_VERSION = 3


@dataclass(frozen=True, slots=True)
class ControlledShutdownConfig:
    """Kafka's ``controlled.shutdown.*`` keys; the socket time-out bounds each attempt."""

    enable: bool = True
    max_retries: int = 3
    retry_backoff_ms: int = 5_000
    controller_socket_timeout_ms: int = 30_000
    inter_broker_listener: str = "PLAINTEXT"


class ControlledShutdown:
    """Kafka's ``KafkaServer.controlledShutdown``: a connection of its own, and some attempts.

    A. done: error 0 and no partition left that this broker leads.
    B. refused, or partitions remain: again after the backoff, while attempts are left.
    C. no controller is known or reached: as B. The broker stops in any case.
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
        self._log = event_log("kafka-shutdown-hook", broker=broker_id)

    async def run(self, broker_epoch: int) -> bool:
        """Whether the controller has relieved this broker of everything."""
        if not self._config.enable:
            return False
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
                return True
            self._log.warning(  # case B
                "controlled_shutdown_refused",
                attempt=attempt,
                error=ErrorCode(answer.error_code).name,
                remaining=len(answer.remaining_partitions),
            )
        self._log.warning("unclean_shutdown", attempts=self._config.max_retries)
        return False

    async def _ask(self, broker_epoch: int) -> ControlledShutdownResponse:
        """Raises OSError and TimeoutError."""
        controller = self._cache.controller_id
        if controller is None:
            raise ConnectionError("the controller is not known")
        endpoint = self._cache.endpoint(controller, self._config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"the controller, broker {controller}, is not alive")
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
                request, CONTROLLED_SHUTDOWN_VERSION, timeout_ms
            )
            return answer
        finally:
            channel.close()
