"""The admin client's call that deletes records, at the leaders of the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias

from minikafka.client.admin.broker_calls import server_timeout_ms
from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import Call, error_of
from minikafka.core.client.cluster_view import group_by_leader, metadata_request, topic_view
from minikafka.kernel.cluster import NO_LEADER, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

HIGH_WATERMARK: Final = -1  # as an offset: everything that is committed

# The low watermark: where the log starts now on every live replica.
DeletionOutcome: TypeAlias = int | KafkaError
Outcomes: TypeAlias = dict[TopicPartition, DeletionOutcome]


async def delete_records(
    session: ClusterSession, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> Outcomes:
    """Delete the records before the offset of each partition. Every partition has an outcome.

    Retriable errors are retried until the deadline, except that of a partition that does not exist.
    A follower that has not deleted yet is such an error.
    """
    outcomes: Outcomes = {}
    waiting = dict(offsets)

    async def attempt() -> None:
        by_leader, unknown = await _leaders(session, waiting, deadline_ms)
        outcomes.update(unknown)
        responses = await asyncio.gather(
            *(
                _delete_once(session, leader, wanted, deadline_ms)
                for leader, wanted in by_leader.items()
            )
        )
        for response in responses:
            outcomes.update(response)
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
    deadline_ms: int,
) -> tuple[dict[int, dict[TopicPartition, int]], dict[TopicPartition, KafkaError]]:
    """Group partitions by leader. Those without one are returned with their error."""
    request = metadata_request(sorted({tp.topic for tp in waiting}))
    response = await session.request_any(request, deadline_ms)
    topics = {row.name: topic_view(row) for row in response.topics}
    errors: dict[TopicPartition, KafkaError] = {}
    leaders: dict[TopicPartition, int] = {}
    for tp in sorted(waiting):
        topic = topics.get(tp.topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if code is not ErrorCode.NONE:
            errors[tp] = KafkaError(code, str(tp))
        elif partition is None:
            errors[tp] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        elif partition.leader == NO_LEADER:
            errors[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
        else:
            leaders[tp] = partition.leader
    located = {tp: offset for tp, offset in waiting.items() if tp in leaders}
    return group_by_leader(located, leaders).by_leader, errors


async def _delete_once(
    session: ClusterSession, leader: int, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> Outcomes:
    """Send one request to one leader. Its failure is the outcome of every partition."""

    def read(response: DeleteRecordsResponse) -> Outcomes:
        outcomes: Outcomes = dict.fromkeys(offsets, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                error = error_of(row.error_code, str(tp))
                outcomes[tp] = row.low_watermark if error is None else error
        return outcomes

    topics = grouped(
        (tp.topic, DeleteRecordsPartition(tp.partition, offset)) for tp, offset in offsets.items()
    )
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name, rows) for name, rows in topics.items()],
        timeout_ms=server_timeout_ms(session, deadline_ms),
    )
    try:
        await session.metadata.wait_until(
            lambda view: view.nodes.get(leader),
            session.timeout_ms(deadline_ms),
            f"address of broker {leader}",
        )
        return await session.call(leader, Call(request, read), deadline_ms)
    except KafkaError as error:
        return dict.fromkeys(offsets, error)
