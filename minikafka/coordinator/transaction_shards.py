"""The partitions of ``__transaction_state`` coordinated here, and what time does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.coordinator.config import TransactionCoordinatorConfig
from minikafka.coordinator.loader import Loader
from minikafka.coordinator.partitions import CoordinatedPartitions
from minikafka.coordinator.ports import InternalLog
from minikafka.coordinator.transaction_markers import Leaders, MarkerItem, TransactionMarkers
from minikafka.coordinator.transaction_runtime import TransactionRuntime
from minikafka.core.transaction.config import TransactionConfig
from minikafka.core.transaction.records import TransactionStored, decode_record
from minikafka.core.transaction.result import Markers
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock


class TransactionShards(CoordinatedPartitions[TransactionRuntime]):
    """What the runtimes of all these partitions share is here too. ``put_marker`` queues markers
    for a broker; what comes of them goes to ``markers.answered``."""

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        leaders: Leaders,
        put_marker: Callable[[int, MarkerItem], None],
        config: TransactionCoordinatorConfig,
        partition_count: Callable[[], int],
        events: EventLog,
    ) -> None:
        super().__init__(
            clock,
            lambda partition, epoch: TransactionRuntime(partition, epoch, self),
            partition_count,
            events,
            "transactions",
        )
        self.log = log
        self.markers = TransactionMarkers(clock, leaders, put_marker, events)
        self._config = config
        self.loader: Loader[TransactionStored] = Loader(
            clock, log, config.load_buffer_size, decode_record, events
        )

    @property
    def transaction_config(self) -> TransactionConfig:
        return self._config.transaction

    def send_markers(self, runtime: TransactionRuntime, markers: Markers) -> None:
        self.markers.send(runtime, markers)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        super().start(tasks)
        self.start_task(self._abort_forever(), "transaction-abort")
        self.start_task(self._expire_forever(), "transactionalId-expiration")

    def close(self) -> None:
        """What waits to be tried again is left to the next coordinator, too."""
        super().close()
        for runtime in list(self.loaded()):
            runtime.unloaded()

    async def _abort_forever(self) -> None:
        while True:
            await self.clock.sleep(self._config.abort_timed_out_interval_ms)
            self.abort_timed_out()

    async def _expire_forever(self) -> None:
        while True:
            await self.clock.sleep(self._config.remove_expired_interval_ms)
            self.expire()

    def abort_timed_out(self) -> None:
        for runtime in list(self.loaded()):
            runtime.run(runtime.shard.abort_timed_out(self.clock.wall_ms()))

    def expire(self) -> None:
        for runtime in list(self.loaded()):
            runtime.run(runtime.shard.expire(self.clock.wall_ms()))
