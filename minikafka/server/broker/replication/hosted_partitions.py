"""The partitions that this broker hosts, and the checkpoint of their high watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import Slices
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.directories.log_manager import LogManager

# The checkpoint of a broker at rest is written this seldom: so it still notices a disk that fails.
UNCHANGED_ROUNDS: Final = 12


class HostedPartitions:
    """The partitions of this broker. Each is online, or offline after its disk failed (Kafka's
    ``HostedPartition``)."""

    def __init__(self, cluster: MetadataCache) -> None:
        self._offline_listeners: list[Callable[[TopicPartition], None]] = []
        self._cluster = cluster
        self._online: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, UUID | None] = {}  # with the ids of their topics
        self._topics: dict[UUID, set[TopicPartition]] = {}  # never empty sets

    def on_offline(self, listener: Callable[[TopicPartition], None]) -> None:
        """Register a listener that is called with every partition whose disk fails. No controller
        request announces that this broker no longer leads it."""
        self._offline_listeners.append(listener)

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over the online partitions, in the order in which they were added."""
        return iter(list(self._online.values()))

    def __len__(self) -> int:
        return len(self._online)

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def topics(self) -> set[str]:
        """Return the names of the topics that have online partitions here."""
        return {topic_partition.topic for topic_partition in self._online}

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._online.get(topic_partition)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def is_unknown(self, topic_partition: TopicPartition) -> bool:
        """Return whether neither this broker nor its metadata cache has the partition."""
        return (
            topic_partition not in self._online
            and self.error_for(topic_partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    def error_for(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return the error of a request for a partition that is not online here:
        KAFKA_STORAGE_ERROR if it is offline, NOT_LEADER_OR_FOLLOWER if the metadata cache has it,
        so that clients refresh their metadata, otherwise UNKNOWN_TOPIC_OR_PARTITION."""
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._cluster.contains(topic_partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Return the high watermark; None for a partition whose log is not open here."""
        partition = self._online.get(topic_partition)
        return None if partition is None or not partition.has_log else partition.high_watermark

    def stable_offset(self, topic_partition: TopicPartition) -> int | None:
        """Return the last stable offset; None for a partition that is not online here."""
        partition = self._online.get(topic_partition)
        return None if partition is None else partition.last_stable_offset

    def require(self, topic_partition: TopicPartition) -> Partition:
        """Return an online partition. Otherwise raise KafkaError with ``error_for``."""
        partition = self._online.get(topic_partition)
        if partition is None:
            raise KafkaError(self.error_for(topic_partition))
        return partition

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic that is hosted here or in the metadata cache, or None. Hosted
        topics come first, since a follower may fetch before this broker's UpdateMetadata."""
        for topic_partition in self._topics.get(topic_id, ()):
            return topic_partition.topic
        return self._cluster.topic_name(topic_id)

    def add(self, partition: Partition) -> None:
        self._online[partition.topic_partition] = partition

    def identify(self, partition: Partition, topic_id: UUID) -> None:
        """Set the topic id of a hosted partition."""
        partition.unsettle()
        partition.topic_id = topic_id
        self._topics.setdefault(topic_id, set()).add(partition.topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Remove a partition, online or offline. Returns the online one, closed."""
        topic_id = self._offline.pop(topic_partition, None)
        partition = self._online.pop(topic_partition, None)
        if partition is not None:
            topic_id = partition.topic_id
            partition.close()
        if topic_id is not None:
            of_topic = self._topics[topic_id]
            of_topic.discard(topic_partition)
            if not of_topic:
                del self._topics[topic_id]
        return partition

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Close the partition after its disk failed. It stays offline until the broker restarts."""
        partition = self._online.pop(topic_partition, None)
        if partition is not None:
            partition.close()
            self._offline[topic_partition] = partition.topic_id
        self._offline.setdefault(topic_partition, None)
        for listener in self._offline_listeners:
            listener(topic_partition)


class HighWatermarkCheckpoint:
    """Kafka's ``replication-offset-checkpoint``, one file in each log directory.

    Values read at the start are kept until the log of their partition is opened here or deleted:
    the controller may not have mentioned the partition yet when the next checkpoint is written.

    ``moved`` are the partitions whose high watermark, or log, has changed since it was last taken
    over: see ``Partition.is_moved``. Thousands of others need not be looked at."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._read: dict[TopicPartition, int] = {}
        self._values: dict[TopicPartition, int] = {}
        self.moved: list[Partition] = []  # bound: the hosted partitions, and those that were closed
        self._differs = True  # from what was last written
        self._unchanged_rounds = 0

    def read(self) -> None:
        """Read the files. Call this after the logs are loaded and before the first LeaderAndIsr."""
        self._read = self._log_manager.read_high_watermarks()
        self._values = dict(self._read)

    def get(self, topic_partition: TopicPartition) -> int:
        """Return the checkpointed high watermark of a partition; 0 without one."""
        return self._read.get(topic_partition, 0)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Remove the value of a log that is being deleted, so that a later log of the same name
        starts at 0."""
        self._read.pop(topic_partition, None)
        if self._hosted.get(topic_partition) is None:  # otherwise it is in ``moved`` when it closes
            self._take_over(topic_partition)

    async def write(self) -> bool:
        """Write the current high watermarks to disk. False if the disk of a directory is full."""
        await self._take_over_moved()
        return await self._write()

    async def write_changes(self) -> bool:
        """Write the high watermarks to disk if they have changed, and at the latest in every
        ``UNCHANGED_ROUNDS``-th call. False if nothing was written, or the disk of a directory is
        full."""
        await self._take_over_moved()
        self._unchanged_rounds += 1
        if self._unchanged_rounds < UNCHANGED_ROUNDS and not self._differs:
            return False
        return await self._write()

    async def _write(self) -> bool:
        self._differs, self._unchanged_rounds = False, 0
        return await self._log_manager.write_high_watermarks(dict(self._values))

    def log_moved(self) -> None:
        """Write the values in the next round, since one belongs to another directory now."""
        self._differs = True

    async def _take_over_moved(self) -> None:
        """Take over the high watermarks that have moved, in slices. Those that move meanwhile are
        taken over, too. Nothing is lost if the task is cancelled."""
        slices = Slices()
        while self.moved:
            partition = self.moved.pop()
            partition.is_moved = False
            self._take_over(partition.topic_partition)
            if slices.ended():
                await slices.pause()

    def _take_over(self, topic_partition: TopicPartition) -> None:
        partition = self._hosted.get(topic_partition)
        if partition is not None and partition.has_log:
            value: int | None = partition.checked_high_watermark()
        else:
            value = self._read.get(topic_partition)
        if value == self._values.get(topic_partition):
            return
        self._differs = True
        if value is None:
            del self._values[topic_partition]
        else:
            self._values[topic_partition] = value
