"""The admin client's calls about placement: reassign replicas, elect leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.client.admin.broker_calls import server_timeout_ms
from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import error_of, raise_for
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListReassignmentsTopic,
)

PlacementOutcomes: TypeAlias = dict[TopicPartition, KafkaError | None]


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
        deadline_ms = self.session.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            topics = [ElectLeadersTopic(t, numbers) for t, numbers in grouped(partitions).items()]

        async def attempt() -> PlacementOutcomes:
            request = ElectLeadersRequest(
                election_type, topics, server_timeout_ms(self.session, deadline_ms)
            )
            response = await self.session.request_controller(request, deadline_ms)
            raise_for(response.error_code)
            outcomes = {
                TopicPartition(topic.topic, row.partition_id): error_of(
                    row.error_code, row.error_message
                )
                for topic in response.replica_election_results
                for row in topic.partition_result
            }
            for error in outcomes.values():
                if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                    raise error  # retried at the current controller
            return outcomes

        return await self.session.retrying(attempt, deadline_ms)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> PlacementOutcomes:
        """Move partitions to the given replicas, the preferred leader first; None cancels a
        reassignment. The outcome None means that it has begun; ``list_partition_reassignments``
        shows when it is done."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        rows = grouped(
            (tp.topic, ReassignablePartition(tp.partition, None if to is None else list(to)))
            for tp, to in targets.items()
        )
        topics = [ReassignableTopic(name, partitions) for name, partitions in rows.items()]

        async def attempt() -> PlacementOutcomes:
            request = AlterPartitionReassignmentsRequest(
                server_timeout_ms(self.session, deadline_ms), topics
            )
            response = await self.session.request_controller(request, deadline_ms)
            raise_for(response.error_code, response.error_message)
            found = {
                TopicPartition(topic.name, row.partition_index): error_of(
                    row.error_code, row.error_message
                )
                for topic in response.responses
                for row in topic.partitions
            }
            missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not in the response")
            return {tp: found.get(tp, missing) for tp in targets}

        return await self.session.retrying(attempt, deadline_ms)

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments of ``partitions``, or of all, that are in progress."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            topics = [
                ListReassignmentsTopic(t, numbers) for t, numbers in grouped(partitions).items()
            ]

        async def attempt() -> dict[TopicPartition, ReplicaAssignment]:
            request = ListPartitionReassignmentsRequest(
                server_timeout_ms(self.session, deadline_ms), topics
            )
            response = await self.session.request_controller(request, deadline_ms)
            raise_for(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, row.partition_index): ReplicaAssignment(
                    tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
                )
                for topic in response.topics
                for row in topic.partitions
            }

        return await self.session.retrying(attempt, deadline_ms)
