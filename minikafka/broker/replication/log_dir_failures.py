"""Disks that fail under replicas: what is not served any more, how the controller hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from minikafka.broker.purgatories import ParkedRequests
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, CoordinationError
from minikafka.zookeeper.store import ZkStore

ANNOUNCE_RETRY_MS = 500


class LogDirFailures:
    """Kafka's ``LogDirFailureHandler``. ``stop`` removes the fetchers and the checkpoints of the
    given partitions."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        parked: ParkedRequests,
        stop: Callable[[Sequence[TopicPartition]], None],
        store: Callable[[], ZkStore],
        broker_id: int,
        log: EventLog,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._parked = parked
        self._stop = stop
        self._store = store
        self._broker_id = broker_id
        self._log = log
        self._unannounced = asyncio.Event()

    def failed(self, path: str, partitions: Sequence[TopicPartition]) -> None:
        """A log directory failed with the logs of ``partitions``: they go offline in this breath,
        and the controller, who hears of it soon, finds other leaders."""
        self._log.warning(
            "stopped_serving_replicas",
            directory=path,
            partitions=[str(topic_partition) for topic_partition in partitions],
        )
        self.take_offline(partitions)
        self._unannounced.set()

    def space_returned(self) -> None:
        """Disks that were too full to make replicas have room again: the controller, who asks about
        directories that failed by telling of all replicas once more, does so."""
        self._log.info("log_directories_have_space")
        self._unannounced.set()

    def take_offline(self, partitions: Sequence[TopicPartition]) -> None:
        """Serve nothing of these any more, and tell whoever waits for them."""
        self._stop(partitions)
        for topic_partition in partitions:
            self._hosted.mark_offline(topic_partition)
        for topic_partition in partitions:
            self._parked.changed(topic_partition)

    async def run(self) -> None:
        """Announce failures until cancelled, however long ZooKeeper is away."""
        while True:
            await self._unannounced.wait()
            self._unannounced.clear()
            try:
                await self._store().propagate_log_dir_event(self._broker_id)
            except CoordinationError as error:
                self._log.warning("log_dir_failure_not_announced", error=repr(error))
                self._unannounced.set()
                await self._clock.sleep(ANNOUNCE_RETRY_MS)
