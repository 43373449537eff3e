"""ListPartitionReassignments (key 46): which partitions are on the move (KIP-455)."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ListReassignmentsTopic:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Message):
    """``topics`` None means all."""

    SPEC = request(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        WHOLE,
        # kafka-reassign-partitions verifies all partitions of its file at once.
        max_elements=WHOLE_CLUSTER,
    )

    timeout_ms: Int32 = 60000
    topics: list[ListReassignmentsTopic] | None = None


@dataclass(slots=True)
class OngoingPartitionReassignment:
    """All replicas of a partition on the move, and which of them come and go."""

    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OngoingTopicReassignment:
    """Partitions of one topic that are on the move."""

    name: String = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@dataclass(slots=True)
class ListPartitionReassignmentsResponse(Message):
    """What is under way; a partition that is at rest is not in it."""

    SPEC = response(ApiKey.LIST_PARTITION_REASSIGNMENTS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
