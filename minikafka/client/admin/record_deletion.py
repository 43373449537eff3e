"""Deletes records at whichever brokers lead the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias

from minikafka.client.session import ClusterSession
from minikafka.core.client.cluster_view import topic_view
from minikafka.kernel.cluster import NO_LEADER, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["HIGH_WATERMARK", "DeletionOutcome", "delete_records"]

HIGH_WATERMARK: Final = -1  # as an offset: everything that is committed

# The low watermark: where the log starts now on every live replica.
DeletionOutcome: TypeAlias = int | KafkaError
Outcomes: TypeAlias = dict[TopicPartition, DeletionOutcome]


async def delete_records(
    session: ClusterSession, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> Outcomes:
    """Delete what lies before the offset of each partition. Every partition has an outcome.

    Goes on until the deadline over errors that may pass, a follower that has not deleted yet among
    them. A partition that does not exist is not waited for.
    """
    outcomes: Outcomes = {}
    waiting = dict(offsets)

    async def attempt() -> None:
        by_leader = await _leaders(session, waiting, outcomes, deadline_ms)
        answers = await asyncio.gather(
            *(_ask(session, leader, wanted, deadline_ms) for leader, wanted in by_leader.items())
        )
        for answer in answers:
            outcomes.update(answer)
        for tp in list(waiting):
            outcome = outcomes[tp]
            if not isinstance(outcome, KafkaError) or _is_final(outcome.code):
                del waiting[tp]
        if waiting:
            unsettled = outcomes[next(iter(waiting))]
            assert isinstance(unsettled, KafkaError)
            raise unsettled

    try:
        await session.retrying(attempt, deadline_ms)
    except KafkaError as error:
        for tp in waiting:
            outcomes.setdefault(tp, error)
    return {tp: outcomes[tp] for tp in offsets}


def _is_final(code: ErrorCode) -> bool:
    return code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not code.retriable


async def _leaders(
    session: ClusterSession,
    waiting: Mapping[TopicPartition, int],
    outcomes: Outcomes,
    deadline_ms: int,
) -> dict[int, dict[TopicPartition, int]]:
    """Whom to ask for what. Who cannot be asked now has its error in ``outcomes``."""
    names = sorted({tp.topic for tp in waiting})
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    answer = await session.request_any(request, deadline_ms)
    topics = {row.name: topic_view(row) for row in answer.topics}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for tp in sorted(waiting):
        topic = topics.get(tp.topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if code is not ErrorCode.NONE:
            outcomes[tp] = KafkaError(code, str(tp))
        elif partition is None:
            outcomes[tp] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        elif partition.leader == NO_LEADER:
            outcomes[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
        else:
            by_leader.setdefault(partition.leader, {})[tp] = waiting[tp]
    return by_leader


async def _ask(
    session: ClusterSession, leader: int, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> Outcomes:
    """The answers of one broker; its silence is the answer for all that it was asked for."""
    topics = grouped(
        (topic, DeleteRecordsPartition(partition, offset))
        for (topic, partition), offset in offsets.items()
    )
    timeout_ms = min(session.config.request_timeout_ms, session.remaining_ms(deadline_ms))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name, rows) for name, rows in topics.items()],
        timeout_ms=max(1, timeout_ms * 9 // 10),  # the broker's answer comes before we give up
    )
    try:
        await session.metadata.wait_until(
            lambda view: view.nodes.get(leader), timeout_ms, f"address of broker {leader}"
        )
        answer = await session.connections.request(leader, request, timeout_ms=timeout_ms)
    except KafkaError as error:
        return dict.fromkeys(offsets, error)
    outcomes: Outcomes = dict.fromkeys(offsets, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    for topic in answer.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            code = ErrorCode(row.error_code)
            failed = code is not ErrorCode.NONE
            outcomes[tp] = KafkaError(code, str(tp)) if failed else row.low_watermark
    return outcomes
