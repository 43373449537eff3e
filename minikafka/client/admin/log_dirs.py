"""The log directories of brokers: asking what lies in them, moving replicas between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.client.session import ClusterSession, raise_for
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from minikafka.protocol.schema import Message

__all__ = ["LogDirDescription", "ReplicaInfo", "alter_replica_log_dirs", "describe_log_dirs"]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """``offset_lag``: of the log behind the high watermark, or of a future log, on its way to this
    directory, behind the current one; -1 when it is not known."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """``error`` is KAFKA_STORAGE_ERROR for a directory that is offline. Sizes of the volume are -1
    where the broker does not tell them."""

    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    total_bytes: int = -1
    usable_bytes: int = -1


async def describe_log_dirs(
    session: ClusterSession, broker_ids: Iterable[int], deadline_ms: int
) -> dict[int, dict[str, LogDirDescription]]:
    """By broker and path. Raises KafkaError."""
    ids = sorted(broker_ids)
    request = DescribeLogDirsRequest(topics=None)
    answers = await asyncio.gather(*(_ask(session, b, request, deadline_ms) for b in ids))
    return {
        broker_id: _descriptions(answer) for broker_id, answer in zip(ids, answers, strict=True)
    }


def _descriptions(answer: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
    raise_for(ErrorCode(answer.error_code))
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
        for row in answer.results
    }


async def alter_replica_log_dirs(
    session: ClusterSession,
    broker_id: int,
    paths: Mapping[TopicPartition, str],
    deadline_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    """None for replicas whose move has begun, or that are there already. Raises KafkaError."""
    dirs = grouped((path, topic_partition) for topic_partition, path in paths.items())
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path, [AlterReplicaLogDirTopic(*of_topic) for of_topic in grouped(moved).items()]
            )
            for path, moved in dirs.items()
        ]
    )
    answer = await _ask(session, broker_id, request, deadline_ms)
    outcomes: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.results:
        for row in topic.partitions:
            code = ErrorCode(row.error_code)
            failed = code is not ErrorCode.NONE
            replica = TopicPartition(topic.topic_name, row.partition_index)
            outcomes[replica] = KafkaError(code, str(replica)) if failed else None
    return outcomes


async def _ask(session: ClusterSession, broker_id: int, request: Message, deadline_ms: int) -> Any:
    async def attempt() -> Any:
        await session.metadata.wait_until(
            lambda view: broker_id if broker_id in view.nodes else None,
            session.remaining_ms(deadline_ms),
            f"broker {broker_id}",
        )
        timeout_ms = min(session.config.request_timeout_ms, session.remaining_ms(deadline_ms))
        return await session.connections.request(broker_id, request, timeout_ms=timeout_ms)

    return await session.retrying(attempt, deadline_ms)
