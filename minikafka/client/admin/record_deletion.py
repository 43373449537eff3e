"""The admin client's call that deletes records, at the leaders of the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from minikafka.client.admin.broker_calls import server_timeout_ms
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import record_deletion as calls
from minikafka.core.client.admin.record_deletion import DeletionOutcomes
from minikafka.core.client.admin.topics import describe_topics
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError


async def delete_records(
    session: ClusterSession, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> DeletionOutcomes:
    """Delete the records before the offset of each partition. Every partition has an outcome.

    Retriable errors are retried until the deadline, except that of a partition that does not exist.
    """
    outcomes: DeletionOutcomes = {}
    waiting = dict(offsets)

    async def attempt() -> None:
        lookup = describe_topics(sorted({tp.topic for tp in waiting}))
        topics = await session.call_any_retrying(lookup, deadline_ms)
        by_leader, unknown = calls.by_leader(waiting, topics)
        outcomes.update(unknown)
        for response in await asyncio.gather(
            *(_delete_once(session, *row, deadline_ms) for row in by_leader.items())
        ):
            outcomes.update(response)
        for tp in list(waiting):
            if calls.is_final(outcomes[tp]):
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


async def _delete_once(
    session: ClusterSession, leader: int, offsets: Mapping[TopicPartition, int], deadline_ms: int
) -> DeletionOutcomes:
    """Send one request to one leader. Its failure is the outcome of every partition."""
    call = calls.delete_records(offsets, server_timeout_ms(session, deadline_ms))
    try:
        await session.metadata.wait_until(
            lambda view: view.nodes.get(leader),
            session.timeout_ms(deadline_ms),
            f"address of broker {leader}",
        )
        return await session.call(leader, call, deadline_ms)
    except KafkaError as error:
        return dict.fromkeys(offsets, error)
