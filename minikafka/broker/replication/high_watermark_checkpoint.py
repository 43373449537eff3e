"""The checkpoint of high watermarks, from which a restarted broker initialises its partitions."""

from __future__ import annotations

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.storage.directories.log_manager import LogManager


class HighWatermarkCheckpoint:
    """Kafka's ``replication-offset-checkpoint``, one file in each log directory.

    Values read at the start are kept until the log of their partition is opened here or deleted:
    the controller may not have mentioned the partition yet when the next checkpoint is written."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._read: dict[TopicPartition, int] = {}

    def read(self) -> None:
        """Read the files. Call this after the logs are loaded and before the first LeaderAndIsr."""
        self._read = self._log_manager.read_high_watermarks()

    def get(self, topic_partition: TopicPartition) -> int:
        """Return the checkpointed high watermark of a partition; 0 without one."""
        return self._read.get(topic_partition, 0)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Remove the value of a log that is being deleted, so that a later log of the same name
        starts at 0."""
        self._read.pop(topic_partition, None)

    def write(self) -> bool:
        """Write the current high watermarks to disk. False if the disk of a directory is full."""
        watermarks = dict(self._read)
        for partition in self._hosted:
            if partition.has_log:
                watermarks[partition.topic_partition] = partition.checked_high_watermark()
        return self._log_manager.write_high_watermarks(watermarks)
