"""The records of ``__consumer_offsets`` for the groups of KIP-848: epochs, members, assignments.

As in ``offsets_log``, a key starts with an int16 for its kind, which counts as its version, and a
value with its own version; no value deletes. Kafka: ``ConsumerGroupMetadataKey`` and so on.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import Bytes, In, Int8, Int32, Int64, Message, String, Uuid, data


@dataclass(slots=True)
class ConsumerGroupMetadataKey(Message):
    """A group by its id."""

    SPEC = data("3")

    group_id: String = ""


@dataclass(slots=True)
class ConsumerGroupMetadataValue(Message):
    """The epoch of a group. ``metadata_hash`` is that of the subscribed topics (since 4.1)."""

    SPEC = data("0", flexible="0+")

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, In("0+", tag=0)] = 0


@dataclass(slots=True)
class ConsumerGroupPartitionMetadataKey(Message):
    """A group by its id."""

    SPEC = data("4")

    group_id: String = ""


@dataclass(slots=True)
class PartitionMetadata:
    """The racks of one partition's replicas."""

    partition: Int32 = 0
    racks: list[String] = field(default_factory=list)


@dataclass(slots=True)
class TopicMetadata:
    """A subscribed topic. Kafka 4.0 and later leave ``partition_metadata`` empty."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupPartitionMetadataValue(Message):
    """The subscribed topics of a group, as Kafka 4.0 and older write them.

    Since 4.1 the group's ``metadata_hash`` is in their place."""

    SPEC = data("0", flexible="0+")

    topics: list[TopicMetadata] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupMemberMetadataKey(Message):
    """A member by its group and its id."""

    SPEC = data("5")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class ClassicProtocol:
    """A protocol of a classic member: an assignor's name, and the subscription for it."""

    name: String = ""
    metadata: Bytes = b""


@dataclass(slots=True)
class ClassicMemberMetadata:
    """A member of the group that speaks the classic protocol, with its session time-out in ms."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupMemberMetadataValue(Message):
    """The subscription of a member.

    ``classic_member_metadata`` is None if the member speaks the protocol of KIP-848. Kafka writes
    the None: it reads a record without the field as that of a classic member."""

    SPEC = data("0", flexible="0+")

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, In("0+", nullable="0+", tag=0)
    ] = field(default_factory=ClassicMemberMetadata)


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """A group by its id."""

    SPEC = data("6")

    group_id: String = ""


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group's epoch for which the target assignment was made."""

    SPEC = data("0", flexible="0+")

    assignment_epoch: Int32 = 0


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """A member by its group and its id."""

    SPEC = data("7")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member shall have."""

    SPEC = data("0", flexible="0+")

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """A member by its group and its id."""

    SPEC = data("8")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has, and those of them that it must give up.

    ``state`` numbers Kafka's ``MemberState``."""

    SPEC = data("0", flexible="0+")

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupRegularExpressionKey(Message):
    """A regular expression that members of a group subscribe to."""

    SPEC = data("16")

    group_id: String = ""
    regular_expression: String = ""


@dataclass(slots=True)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that matched. ``version`` is the metadata's at ``timestamp``, in ms since 1970."""

    SPEC = data("0", flexible="0+")

    topics: list[String] = field(default_factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0


# The key and the value of each kind of record.
CONSUMER_GROUP_RECORDS: Final = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
