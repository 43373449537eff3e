"""The admin client's part that moves replicas and has leaders elected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from minikafka.client.session import ClusterSession, raise_for
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
    """Asked of the controller, until ``timeout_ms`` over retriable errors. Raises KafkaError."""

    session: ClusterSession

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> PlacementOutcomes:
        """None for each partition that was given a leader. Without ``partitions`` all are meant,
        and those that need no election have no outcome."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            by_topic = grouped(partitions)
            topics = [ElectLeadersTopic(*of_topic) for of_topic in by_topic.items()]

        async def attempt() -> PlacementOutcomes:
            request = ElectLeadersRequest(election_type, topics, self._wait_ms(deadline_ms))
            answer = await self.session.request_controller(request, deadline_ms)
            raise_for(ErrorCode(answer.error_code))
            outcomes = {
                TopicPartition(topic.topic, row.partition_id): _outcome(row)
                for topic in answer.replica_election_results
                for row in topic.partition_result
            }
            for error in outcomes.values():
                if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                    raise error  # to be tried again, at whoever is
            return outcomes

        return await self.session.retrying(attempt, deadline_ms)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> PlacementOutcomes:
        """Move partitions to the replicas given, the preferred leader first; None gives up what is
        under way. None as outcome: it has begun, and ``list_partition_reassignments`` tells when
        it is done."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        rows = (
            (topic, ReassignablePartition(index, None if replicas is None else list(replicas)))
            for (topic, index), replicas in targets.items()
        )
        topics = [ReassignableTopic(*of_topic) for of_topic in grouped(rows).items()]

        async def attempt() -> PlacementOutcomes:
            request = AlterPartitionReassignmentsRequest(self._wait_ms(deadline_ms), topics)
            answer = await self.session.request_controller(request, deadline_ms)
            raise_for(ErrorCode(answer.error_code), answer.error_message)
            found = {
                TopicPartition(topic.name, row.partition_index): _outcome(row)
                for topic in answer.responses
                for row in topic.partitions
            }
            silence = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer")
            return {tp: found.get(tp, silence) for tp in targets}

        return await self.session.retrying(attempt, deadline_ms)

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Those of ``partitions`` (without: of all) that are on the move."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        topics = None
        if partitions is not None:
            by_topic = grouped(partitions)
            topics = [ListReassignmentsTopic(*of_topic) for of_topic in by_topic.items()]

        async def attempt() -> dict[TopicPartition, ReplicaAssignment]:
            request = ListPartitionReassignmentsRequest(self._wait_ms(deadline_ms), topics)
            answer = await self.session.request_controller(request, deadline_ms)
            raise_for(ErrorCode(answer.error_code), answer.error_message)
            return {
                TopicPartition(topic.name, row.partition_index): ReplicaAssignment(
                    tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
                )
                for topic in answer.topics
                for row in topic.partitions
            }

        return await self.session.retrying(attempt, deadline_ms)

    def _wait_ms(self, deadline_ms: int) -> int:
        """How long the controller may wait: shorter than we do, so that we hear of it."""
        remaining_ms = self.session.remaining_ms(deadline_ms)
        return max(1, min(self.session.config.request_timeout_ms, remaining_ms) * 9 // 10)


class _Row(Protocol):
    error_code: int
    error_message: str | None


def _outcome(row: _Row) -> KafkaError | None:
    code = ErrorCode(row.error_code)
    return None if code is ErrorCode.NONE else KafkaError(code, row.error_message)
