"""The records of ``__consumer_offsets`` for streams groups (KIP-1071), keys 17 to 23.

Keys and values are versioned as in ``consumer_group_log``; no value deletes. Kafka:
``StreamsGroupMetadataKey`` and so on.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.streams_topology import (
    KeyValue,
    Subtopology,
    TaskIds,
    UserEndpoint,
)
from minikafka.protocol.schema import In, Int8, Int32, Int64, Message, String, data


@dataclass(slots=True)
class StreamsGroupMetadataKey(Message):
    """A group by its id."""

    SPEC = data("17")

    group_id: String = ""


@dataclass(slots=True)
class StreamsGroupMetadataValue(Message):
    """The epoch of a group. ``metadata_hash`` is that of the topics in its topology.

    ``validated_topology_epoch`` is -1 until all of these topics are as they must be.
    ``last_assignment_configs`` are the configurations of the last assignment."""

    SPEC = data("0", flexible="0+")

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, In("0+", tag=0)] = -1
    last_assignment_configs: Annotated[list[KeyValue] | None, In("0+", nullable="0+", tag=1)] = None


@dataclass(slots=True)
class StreamsGroupMemberMetadataKey(Message):
    """A member by its group and its id."""

    SPEC = data("19")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class StreamsGroupMemberMetadataValue(Message):
    """What a member says of itself."""

    SPEC = data("0", flexible="0+")

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: UserEndpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """A group by its id."""

    SPEC = data("20")

    group_id: String = ""


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The group's epoch for which the target assignment was made."""

    SPEC = data("0", flexible="0+")

    assignment_epoch: Int32 = 0


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMemberKey(Message):
    """A member by its group and its id."""

    SPEC = data("21")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The tasks that a member shall have."""

    SPEC = data("0", flexible="0+")

    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@dataclass(slots=True)
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """A member by its group and its id."""

    SPEC = data("22")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class TaskIdsWithEpochs:
    """Tasks of one subtopology, active ones with the member epochs in which they were assigned."""

    subtopology_id: String = ""
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: Annotated[list[Int32] | None, In("0+", nullable="0+", tag=0)] = None


@dataclass(slots=True)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The tasks that a member has, and those that it must give up.

    ``state`` numbers Kafka's ``MemberState``."""

    SPEC = data("0", flexible="0+")

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[TaskIdsWithEpochs] = field(default_factory=list)
    standby_tasks: list[TaskIdsWithEpochs] = field(default_factory=list)
    warmup_tasks: list[TaskIdsWithEpochs] = field(default_factory=list)
    active_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(default_factory=list)
    standby_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(default_factory=list)
    warmup_tasks_pending_revocation: list[TaskIdsWithEpochs] = field(default_factory=list)


@dataclass(slots=True)
class StreamsGroupTopologyKey(Message):
    """A group by its id."""

    SPEC = data("23")

    group_id: String = ""


@dataclass(slots=True)
class StreamsGroupTopologyValue(Message):
    """The topology of a group, as its first member has sent it."""

    SPEC = data("0", flexible="0+")

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


# The key and the value of each kind of record.
STREAMS_GROUP_RECORDS: Final = (
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
