"""AlterReplicaLogDirs (key 34): move replicas to another log directory (KIP-113)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.storage.directories.log_manager import LogManager


class AlterReplicaLogDirsHandler:
    """Serves AlterReplicaLogDirs (a ``TaskHandler``).

    The response is sent when the moves have begun. As in Kafka, the last directory counts for a
    replica that is named twice. A replica that this broker does not have yet
    gets REPLICA_NOT_AVAILABLE, and its log will be created in that directory."""

    def __init__(self, log_manager: LogManager, hosted: HostedPartitions) -> None:
        self._log_manager = log_manager
        self._hosted = hosted
        self._log = event_log("replica-manager")

    async def __call__(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        targets = {
            TopicPartition(topic.name, index): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
        rows: list[tuple[str, AlterReplicaLogDirPartitionResult]] = []
        failures: dict[tuple[str, ErrorCode], list[TopicPartition]] = {}
        async for topic_partition, path in in_slices(targets.items()):
            topic, index = topic_partition
            error = self._move(topic_partition, path)
            rows.append((topic, AlterReplicaLogDirPartitionResult(index, error)))
            if error is not ErrorCode.NONE:
                failures.setdefault((path, error), []).append(topic_partition)
        for (path, error), partitions in failures.items():
            self._log.warning(
                "log_dir_not_altered",
                directory=path,
                error=error.name,
                partitions=len(partitions),
                first=str(partitions[0]),
            )
        results = [AlterReplicaLogDirTopicResult(*of_topic) for of_topic in grouped(rows).items()]
        return AlterReplicaLogDirsResponse(results=results)

    def _move(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        if self._hosted.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.get(topic_partition)
        log = partition.log if partition is not None and partition.has_log else None
        try:
            self._log_manager.moves.begin(topic_partition, path, log)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


async def _admit_moves(
    authorization: Authorization, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    topics = (topic for directory in request.dirs for topic in directory.topics)
    async for topic in slices.over(topics):
        partitions = [
            AlterReplicaLogDirPartitionResult(index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            async for index in slices.over(topic.partitions)
        ]
        rows.append(AlterReplicaLogDirTopicResult(topic.name, partitions))
    return Admitted(None, response=AlterReplicaLogDirsResponse(results=rows))


ALTER_REPLICA_LOG_DIRS = Api(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    handler=lambda broker: AlterReplicaLogDirsHandler(broker.logs, broker.replicas.hosted),
    task=True,
    authorization=before(_admit_moves),
    quota=Quota.REQUESTS,
    changes_state=True,
)
