"""StreamsGroupDescribe (key 89): streams groups with their topologies and members."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_groups import AUTHORIZED_OPERATIONS_OMITTED
from minikafka.protocol.messages.streams_topology import (
    KeyValue,
    TaskIds,
    TaskOffset,
    TopicInfo,
    UserEndpoint,
)
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bool,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class StreamsGroupDescribeRequest(Message):
    """Groups by id."""

    SPEC = request(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        Places((Level("group_ids", "", "group"),), (Level("groups", "group_id", "group"),)),
        max_elements=LOOK_UPS,
    )

    group_ids: list[String] = field(default_factory=list)
    include_authorized_operations: Bool = False


@dataclass(slots=True)
class DescribedSubtopology:
    """A subtopology; its internal topics have the partition counts that the coordinator decided."""

    subtopology_id: String = ""
    source_topics: list[String] = field(default_factory=list)
    repartition_sink_topics: list[String] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)


@dataclass(slots=True)
class DescribedTopology:
    """The topology of a group."""

    epoch: Int32 = 0
    subtopologies: list[DescribedSubtopology] | None = None


@dataclass(slots=True)
class Assignment:
    """The tasks that a member has, or is to have."""

    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    """One member of a group. Members with the same ``process_id`` share one process's state."""

    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: Bool = False


@dataclass(slots=True)
class DescribedGroup:
    """One group, or why it cannot be described."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: DescribedTopology | None = None
    members: list[Member] = field(default_factory=list)
    # A bit per operation.
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@dataclass(slots=True)
class StreamsGroupDescribeResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.STREAMS_GROUP_DESCRIBE)

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
