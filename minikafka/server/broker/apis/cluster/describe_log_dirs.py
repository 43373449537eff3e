"""DescribeLogDirs (key 35): sizes of the replicas in each log directory (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import needs_or
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.storage.log.unified_log import UnifiedLog


class DescribeLogDirsHandler:
    """Serves DescribeLogDirs (a ``TaskHandler``).

    Kafka: ``ReplicaManager.describeLogDirs``."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._log = event_log("replica-manager")

    async def __call__(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> DescribeLogDirsResponse:
        requested = None
        if request.topics is not None:
            requested = {
                TopicPartition(topic.topic, index)
                for topic in request.topics
                for index in topic.partitions
            }
        paths = self._log_manager.directories.paths
        return DescribeLogDirsResponse(results=[self._one(path, requested) for path in paths])

    def _one(self, path: str, requested: set[TopicPartition] | None) -> DescribeLogDirsResult:
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
            topics=self._topics(directory, requested),
            total_bytes=volume.total_bytes,
            usable_bytes=volume.usable_bytes,
        )

    def _topics(
        self, directory: LogDirectory, requested: set[TopicPartition] | None
    ) -> list[DescribeLogDirsTopic]:
        rows = (
            (
                log.topic_partition.topic,
                DescribeLogDirsPartition(
                    log.topic_partition.partition,
                    log.size_bytes,
                    self._offset_lag(log, is_future),
                    is_future,
                ),
            )
            for log, is_future in _logs(directory)
            if requested is None or log.topic_partition in requested
        )
        return [DescribeLogDirsTopic(*of_topic) for of_topic in grouped(rows).items()]

    def _offset_lag(self, log: UnifiedLog, is_future: bool) -> int:
        """Return how many offsets a log is behind the high watermark, or a future log behind the
        current one. -1 if the replica is offline or was in no LeaderAndIsr yet."""
        partition = self._hosted.get(log.topic_partition)
        if partition is None or not partition.has_log:
            return -1
        if is_future:
            return partition.log.log_end_offset - log.log_end_offset
        return max(partition.high_watermark - log.log_end_offset, 0)


def _logs(directory: LogDirectory) -> Iterable[tuple[UnifiedLog, bool]]:
    yield from ((log, False) for log in directory.logs.values())
    yield from ((log, True) for log in directory.futures.values())


DESCRIBE_LOG_DIRS = Api(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    handler=lambda broker: DescribeLogDirsHandler(broker.logs, broker.replicas.hosted),
    task=True,
    authorization=needs_or(
        AclOperation.DESCRIBE,
        lambda _, __: DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ),
    quota=Quota.REQUESTS,
    changes_state=False,
)
