"""Failed log directories: take their replicas offline and notify the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.zookeeper.store import ZkStore

ANNOUNCE_RETRY_MS = 500


class LogDirFailures:
    """Handles failed log directories (Kafka's ``LogDirFailureHandler``). ``stop`` is called with
    partitions to remove them from fetchers and from the checkpoint."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        stop: Callable[[Sequence[TopicPartition]], None],
        store: Callable[[], ZkStore],
        broker_id: int,
        log: EventLog,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._stop = stop
        self._store = store
        self._broker_id = broker_id
        self._log = log
        self.lacks_space = False
        self._unannounced = asyncio.Event()

    def failed(self, path: str, partitions: Sequence[TopicPartition]) -> None:
        """Take the ``partitions`` of a failed log directory offline, and notify the controller,
        which elects other leaders."""
        self._log.warning(
            "replicas_taken_offline",
            directory=path,
            partitions=[str(topic_partition) for topic_partition in partitions],
        )
        self.take_offline(partitions)
        self._unannounced.set()

    def lacked_space(self) -> None:
        """Remember that a full disk prevented the creation of a log. The controller was sent
        KAFKA_STORAGE_ERROR, and counts the replica as offline."""
        self.lacks_space = True

    def found_space(self) -> None:
        """Call this when a file was written to every log directory. If a log could not be created
        before, notify the controller as after a failure: it sends LeaderAndIsr for all replicas
        again, and the missing logs are created."""
        if self.lacks_space:
            self.lacks_space = False
            self._log.info("log_directory_space_regained")
            self._unannounced.set()

    def take_offline(self, partitions: Sequence[TopicPartition]) -> None:
        """Close these partitions, and complete the delayed operations that watch them."""
        self._stop(partitions)
        for topic_partition in partitions:
            self._hosted.mark_offline(topic_partition)
        self._purgatories.partitions_changed(partitions)

    async def run(self) -> None:
        """Write notification znodes until cancelled; retry while ZooKeeper is unreachable."""
        while True:
            await self._unannounced.wait()
            self._unannounced.clear()
            try:
                await self._store().propagate_log_dir_event(self._broker_id)
            except NoAuth:
                raise
            except CoordinationError as error:
                self._log.warning("log_dir_failure_not_announced", error=repr(error))
                self._unannounced.set()
                await self._clock.sleep(ANNOUNCE_RETRY_MS)
