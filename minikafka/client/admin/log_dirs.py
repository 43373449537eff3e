"""The admin client's calls about log directories: describe them, move replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.client.admin.broker_calls import call_broker
from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import Call, error_of, raise_for
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
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


async def describe_log_dirs(
    session: ClusterSession, broker_ids: Iterable[int], deadline_ms: int
) -> dict[int, dict[str, LogDirDescription]]:
    """Return the log directories by broker and path. Raises KafkaError."""
    ids = sorted(broker_ids)
    call = Call(DescribeLogDirsRequest(topics=None), _descriptions)
    found = await asyncio.gather(*(call_broker(session, b, call, deadline_ms) for b in ids))
    return dict(zip(ids, found, strict=True))


def _descriptions(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
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


async def alter_replica_log_dirs(
    session: ClusterSession,
    broker_id: int,
    paths: Mapping[TopicPartition, str],
    deadline_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    """Move replicas to other log directories. The outcome is None for replicas whose move has
    begun, or that are there already. Raises KafkaError."""
    by_path = grouped((path, replica) for replica, path in paths.items())
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path,
                [
                    AlterReplicaLogDirTopic(topic, numbers)
                    for topic, numbers in grouped(replicas).items()
                ],
            )
            for path, replicas in by_path.items()
        ]
    )
    return await call_broker(session, broker_id, Call(request, _altered), deadline_ms)


def _altered(response: AlterReplicaLogDirsResponse) -> dict[TopicPartition, KafkaError | None]:
    outcomes: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.results:
        for row in topic.partitions:
            replica = TopicPartition(topic.topic_name, row.partition_index)
            outcomes[replica] = error_of(row.error_code, str(replica))
    return outcomes
