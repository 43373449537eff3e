"""Calls about the log directories of one broker: describe them, move replicas between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from minikafka.core.client.calls import Call, error_of, raise_for
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory. ``offset_lag``: how far the log is behind the high watermark,
    or a future log, which moves to this directory, behind the current one; -1 if it is not
    known."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """``error`` is KAFKA_STORAGE_ERROR for a directory that is offline. Sizes of the volume are -1
    if the broker does not send them."""

    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    total_bytes: int = -1
    usable_bytes: int = -1


def describe_log_dirs() -> Call[dict[str, LogDirDescription]]:
    """Build DescribeLogDirs. The result has the log directories of the called broker, by path."""

    def read(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
        raise_for(response.error_code)
        return {
            row.log_dir: LogDirDescription(
                ErrorCode(row.error_code),
                {
                    TopicPartition(topic.name, found.partition_index): ReplicaInfo(
                        found.partition_size, found.offset_lag, found.is_future_key
                    )
                    for topic in row.topics
                    for found in topic.partitions
                },
                row.total_bytes,
                row.usable_bytes,
            )
            for row in response.results
        }

    return Call(DescribeLogDirsRequest(topics=None), read)


def alter_replica_log_dirs(
    paths: Mapping[TopicPartition, str],
) -> Call[dict[TopicPartition, KafkaError | None]]:
    """Build AlterReplicaLogDirs, to the broker whose replicas move.

    The result is None for replicas whose move has begun, or that are there already.
    """

    def read(response: AlterReplicaLogDirsResponse) -> dict[TopicPartition, KafkaError | None]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for topic in response.results:
            for row in topic.partitions:
                replica = TopicPartition(topic.topic_name, row.partition_index)
                outcomes[replica] = error_of(row.error_code, str(replica))
        return outcomes

    by_path = grouped((path, replica) for replica, path in paths.items())
    dirs = [
        AlterReplicaLogDir(
            path,
            [
                AlterReplicaLogDirTopic(topic, numbers)
                for topic, numbers in grouped(replicas).items()
            ],
        )
        for path, replicas in by_path.items()
    ]
    return Call(AlterReplicaLogDirsRequest(dirs=dirs), read)
