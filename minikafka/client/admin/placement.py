"""The admin client's calls about placement: reassign replicas, elect leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minikafka.client.admin.broker_calls import call_controller
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import placement as calls
from minikafka.core.client.admin.placement import PlacementOutcomes
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition


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
