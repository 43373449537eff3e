"""AlterReplicaLogDirs (key 34): replicas of this broker go to other log directories of its."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.storage.log_manager import LogManager


class AlterReplicaLogDirsHandler:
    """A TaskHandler: answers when the moves have begun. For a replica that is not here yet the
    answer is REPLICA_NOT_AVAILABLE, and its log will be made in that directory."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._log = event_log("replica-manager")

    async def __call__(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        results: dict[str, AlterReplicaLogDirTopicResult] = {}
        for directory in request.dirs:
            for topic in directory.topics:
                result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name))
                for index in topic.partitions:
                    error = self._move(TopicPartition(topic.name, index), directory.path)
                    result.partitions.append(AlterReplicaLogDirPartitionResult(index, error))
        return AlterReplicaLogDirsResponse(results=list(results.values()))

    def _move(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        if self._hosted.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.get(topic_partition)
        log = partition.log if partition is not None and partition.has_log else None
        try:
            self._log_manager.moves.begin(topic_partition, path, log)
        except KafkaError as error:
            self._log.warning(
                "log_dir_not_altered", partition=str(topic_partition), error=str(error)
            )
            return error.code
        return ErrorCode.NONE
