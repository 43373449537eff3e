"""The records of ``__consumer_offsets`` for share groups (KIP-932): epochs, members, assignments,
and which share-partitions have a state.

A key starts with an int16 for its kind, as in ``consumer_group_log``. Kafka:
``ShareGroupMetadataKey`` and so on.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_log import TopicPartitions
from minikafka.protocol.schema import Int8, Int32, Int64, Message, String, Uuid, data


@dataclass(slots=True)
class ShareGroupMemberMetadataKey(Message):
    """A member by its group and its id."""

    SPEC = data("10")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class ShareGroupMemberMetadataValue(Message):
    """The subscription of a member."""

    SPEC = data("0", flexible="0+")

    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)


@dataclass(slots=True)
class ShareGroupMetadataKey(Message):
    """A group by its id."""

    SPEC = data("11")

    group_id: String = ""


@dataclass(slots=True)
class ShareGroupMetadataValue(Message):
    """The epoch of a group, and the hash of the subscribed topics."""

    SPEC = data("0", flexible="0+")

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@dataclass(slots=True)
class ShareGroupTargetAssignmentMetadataKey(Message):
    """A group by its id."""

    SPEC = data("12")

    group_id: String = ""


@dataclass(slots=True)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group's epoch for which the target assignment was made."""

    SPEC = data("0", flexible="0+")

    assignment_epoch: Int32 = 0


@dataclass(slots=True)
class ShareGroupTargetAssignmentMemberKey(Message):
    """A member by its group and its id."""

    SPEC = data("13")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class ShareGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member shall have."""

    SPEC = data("0", flexible="0+")

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ShareGroupCurrentMemberAssignmentKey(Message):
    """A member by its group and its id."""

    SPEC = data("14")

    group_id: String = ""
    member_id: String = ""


@dataclass(slots=True)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has. ``state`` numbers Kafka's ``MemberState``."""

    SPEC = data("0", flexible="0+")

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ShareGroupStatePartitionMetadataKey(Message):
    """A group by its id."""

    SPEC = data("15")

    group_id: String = ""


@dataclass(slots=True)
class TopicPartitionsInfo:
    """Partitions of one topic, by its id and its name."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class TopicInfo:
    """A topic by its id and its name."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""


@dataclass(slots=True)
class ShareGroupStatePartitionMetadataValue(Message):
    """The share-partitions whose states the share coordinators are asked to make, those that have
    one, and the topics whose states they are asked to delete."""

    SPEC = data("0", flexible="0+")

    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)


# The key and the value of each kind of record.
SHARE_GROUP_RECORDS: Final = (
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
