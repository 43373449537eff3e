"""The admin client's calls about replicas: reassign them, elect leaders, delete records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from minikafka.client.admin.broker_calls import call_controller, server_timeout_ms
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import replicas as calls
from minikafka.core.client.admin.replicas import DeletionOutcomes, PlacementOutcomes
from minikafka.core.client.admin.topics import describe_topics
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import KafkaError


class PlacementAdmin:
    """The placement calls of ``Admin``, which inherits this class.

    Calls go to the controller and are retried after retriable errors until ``timeout_ms``. They
    raise KafkaError.
    """

    session: ClusterSession

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> PlacementOutcomes:
        """Elect leaders. The outcome is None for each partition that got a new one. Without
        ``partitions`` all are elected, and those that need no election have no outcome."""
        wanted = None if partitions is None else list(partitions)
        return await call_controller(
            self.session,
            lambda server_ms: calls.elect_leaders(election_type, wanted, server_ms),
            self.session.deadline_ms(timeout_ms),
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> PlacementOutcomes:
        """Move partitions to the given replicas, the preferred leader first; None cancels a
        reassignment. The outcome None means that it has begun; ``list_partition_reassignments``
        shows when it is done."""
        return await call_controller(
            self.session,
            lambda server_ms: calls.alter_partition_reassignments(targets, server_ms),
            self.session.deadline_ms(timeout_ms),
        )

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments of ``partitions``, or of all, that are in progress."""
        wanted = None if partitions is None else list(partitions)
        return await call_controller(
            self.session,
            lambda server_ms: calls.list_partition_reassignments(wanted, server_ms),
            self.session.deadline_ms(timeout_ms),
        )


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
