"""Looks up offsets by timestamp, at whichever brokers lead the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from minikafka.client.session import ClusterSession
from minikafka.core.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "OffsetAndTimestamp",
    "list_offsets",
    "look_up_once",
]

MAX_TIMESTAMP = -3


class OffsetAndTimestamp(NamedTuple):
    """``offset`` -1: no record is as late as the timestamp asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


Found: TypeAlias = dict[TopicPartition, OffsetAndTimestamp]


async def list_offsets(
    session: ClusterSession,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    isolation_level: int = 0,
) -> Found:
    """The first offset at or after each timestamp (or EARLIEST, LATEST, MAX_TIMESTAMP).

    Raises KafkaError for what is not retriable, and when the deadline passes.
    """
    found: Found = {}

    async def attempt() -> None:
        missing = {tp: at for tp, at in timestamps.items() if tp not in found}
        await _wait_for_a_leader(session, missing, deadline_ms)
        answers, errors = await look_up_once(session, missing, deadline_ms, isolation_level)
        found.update(answers)
        if errors:
            raise next((error for error in errors if not error.code.retriable), errors[0])

    await session.retrying(attempt, deadline_ms)
    return found


async def look_up_once(
    session: ClusterSession,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: int,
    isolation_level: int,
) -> tuple[Found, list[KafkaError]]:
    """Ask every leader that is known, once. What is missing is explained by the errors."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    errors: list[KafkaError] = []
    for tp in sorted(timestamps):
        leader = session.metadata.view.leaders.get(tp)
        if leader is None:
            errors.append(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
        else:
            by_leader.setdefault(leader, {})[tp] = timestamps[tp]
    found: Found = {}
    for answers, failed in await asyncio.gather(
        *(
            _ask(session, leader, wanted, isolation_level, deadline_ms)
            for leader, wanted in sorted(by_leader.items())
        )
    ):
        found.update(answers)
        errors.extend(failed)
    return found, errors


async def _wait_for_a_leader(
    session: ClusterSession, partitions: Collection[TopicPartition], deadline_ms: int
) -> None:
    """Of any of them. Raises KafkaError."""
    if not partitions:
        return
    session.metadata.add_topics({tp.topic for tp in partitions})
    await session.metadata.wait_until(
        lambda view: next((True for tp in partitions if tp in view.leaders), None),
        session.remaining_ms(deadline_ms),
        f"leader of {next(iter(partitions))}",
    )


async def _ask(
    session: ClusterSession,
    leader: int,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline_ms: int,
) -> tuple[Found, list[KafkaError]]:
    """The answers of one broker, and what went wrong."""
    rows: list[tuple[str, ListOffsetsPartition]] = []
    for tp, timestamp in timestamps.items():
        view = session.metadata.view.partition(tp)
        row = ListOffsetsPartition(
            partition_index=tp.partition,
            current_leader_epoch=-1 if view is None else view.leader_epoch,
            timestamp=timestamp,
        )
        rows.append((tp.topic, row))
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(name=name, partitions=of_topic)
            for name, of_topic in grouped(rows).items()
        ],
    )
    try:
        timeout_ms = min(session.config.request_timeout_ms, session.remaining_ms(deadline_ms))
        answer = await session.connections.request(leader, request, timeout_ms=timeout_ms)
    except KafkaError as error:
        return {}, [error]
    found: Found = {}
    errors: list[KafkaError] = []
    for topic in answer.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            code = ErrorCode(row.error_code)
            if code is ErrorCode.NONE:
                found[tp] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
            else:
                errors.append(KafkaError(code, str(tp)))
    return found, errors
