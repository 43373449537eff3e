"""DescribeLogDirs (key 35): the log directories of this broker, and how large its logs are."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.broker.context import RequestContext
from minikafka.broker.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.log_manager import LogManager
from minikafka.storage.unified_log import UnifiedLog


class DescribeLogDirsHandler:
    """A TaskHandler. Kafka: ``ReplicaManager.describeLogDirs``."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._log = event_log("replica-manager")

    async def __call__(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> DescribeLogDirsResponse:
        wanted = None
        if request.topics is not None:
            wanted = {
                TopicPartition(topic.topic, index)
                for topic in request.topics
                for index in topic.partitions
            }
        paths = self._log_manager.directories.paths
        return DescribeLogDirsResponse(results=[self._one(path, wanted) for path in paths])

    def _one(self, path: str, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
        directory = self._log_manager.directories.by_path(path)
        if directory is None:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
        try:
            volume = directory.volume()
        except OSError as error:
            self._log.error("log_dir_not_described", directory=path, error=repr(error))
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
        return DescribeLogDirsResult(
            log_dir=path,
            topics=self._topics(directory, wanted),
            total_bytes=volume.total_bytes,
            usable_bytes=volume.usable_bytes,
        )

    def _topics(
        self, directory: LogDirectory, wanted: set[TopicPartition] | None
    ) -> list[DescribeLogDirsTopic]:
        topics: dict[str, DescribeLogDirsTopic] = {}
        for log, is_future in _logs(directory):
            (topic, index) = log.topic_partition
            if wanted is None or log.topic_partition in wanted:
                found = topics.setdefault(topic, DescribeLogDirsTopic(topic))
                lag = self._offset_lag(log, is_future)
                found.partitions.append(
                    DescribeLogDirsPartition(index, log.size_bytes, lag, is_future)
                )
        return list(topics.values())

    def _offset_lag(self, log: UnifiedLog, is_future: bool) -> int:
        """How far a log is behind the high watermark, or a future log behind the current one; -1
        when this broker has not been told of the replica, or it is offline."""
        partition = self._hosted.get(log.topic_partition)
        if partition is None or not partition.has_log:
            return -1
        if is_future:
            return partition.log.log_end_offset - log.log_end_offset
        return max(partition.high_watermark - log.log_end_offset, 0)


def _logs(directory: LogDirectory) -> Iterable[tuple[UnifiedLog, bool]]:
    yield from ((log, False) for log in directory.logs.values())
    yield from ((log, True) for log in directory.futures.values())
