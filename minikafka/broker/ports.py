"""What the broker's request handlers call in the controller of the same process.

``broker`` and ``controller`` are siblings and do not import each other. ``KafkaController``
satisfies this interface, and the node passes it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from minikafka.core.controller.feature_updates import FeatureUpdate
from minikafka.kernel.cluster import ElectionType, LeaderAndIsr, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError


class Controller(Protocol):
    """Kafka's ``KafkaController``, as ``KafkaApis`` uses it. Every method raises ``KafkaError``
    when this broker is not the controller: STALE_CONTROLLER_EPOCH for ``controlled_shutdown``,
    NOT_CONTROLLER for the others."""

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the leaderships of ``broker_id`` to other replicas. Returns the replicated
        partitions that it still leads. A ``broker_epoch`` of -1 is not checked."""
        ...

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election_type: ElectionType
    ) -> Mapping[TopicPartition, int | KafkaError]:
        """Elect leaders. Returns each partition's new leader, or the error of its election."""
        ...

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Begin the reassignment of each partition to its target replicas, or cancel its current
        reassignment (target None). Returns each partition's error, None after a success."""
        ...

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the current reassignments of ``partitions``, or of all partitions (None)."""
        ...

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        states: Mapping[TopicPartition, LeaderAndIsr],
        knows_ineligible: bool,
    ) -> Mapping[TopicPartition, LeaderAndIsr | ErrorCode]:
        """Write the ISRs that leader ``broker_id`` requests. Returns each partition's new state, or
        its error: the current state instead of INELIGIBLE_REPLICA, unless it ``knows_ineligible``.
        Also raises STALE_BROKER_EPOCH."""
        ...

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Allocate a block of producer ids. Also raises BROKER_ID_NOT_REGISTERED,
        STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR."""
        ...

    async def update_features(
        self, updates: Iterable[FeatureUpdate], validate_only: bool
    ) -> Mapping[str, KafkaError | None]:
        """Update finalized features. Returns each feature's error, None after a success. Also
        raises FEATURE_UPDATE_FAILED."""
        ...

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic that the controller knows by its id."""
        ...
