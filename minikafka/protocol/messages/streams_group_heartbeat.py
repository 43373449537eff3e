"""StreamsGroupHeartbeat (key 88): a member of a streams group, its tasks and its topology."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.streams_topology import (
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    UserEndpoint,
)
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


class StatusCode(IntEnum):
    """What keeps a streams group from its work (Kafka's ``StreamsGroupHeartbeatResponse.Status``).

    SHUTDOWN_APPLICATION: a member wants all members to end. ASSIGNMENT_DELAYED: a new group waits
    for more members before the first assignment."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(slots=True)
class Topology:
    """The topology of an application."""

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


@dataclass(slots=True)
class StreamsGroupHeartbeatRequest(Message):
    """None, or -1, for what has not changed since the last one.

    ``topology`` comes with the request that joins, all three kinds of tasks together or not at all.
    """

    SPEC = request(ApiKey.STREAMS_GROUP_HEARTBEAT, IN_GROUP, max_elements=ORDINARY)

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: UserEndpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


@dataclass(slots=True)
class Status:
    """A ``StatusCode`` and its sentence."""

    status_code: Int8 = 0
    status_detail: String = ""


@dataclass(slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class EndpointToPartitions:
    """The partitions whose state a member can be asked for."""

    user_endpoint: UserEndpoint = field(default_factory=UserEndpoint)
    active_partitions: list[TopicPartitions] = field(default_factory=list)
    standby_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class StreamsGroupHeartbeatResponse(Message):
    """Tasks None: as before."""

    SPEC = response(ApiKey.STREAMS_GROUP_HEARTBEAT)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = field(default_factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
