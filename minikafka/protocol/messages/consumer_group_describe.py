"""ConsumerGroupDescribe (key 69): groups of KIP-848's protocol, with their members."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_groups import AUTHORIZED_OPERATIONS_OMITTED
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)

UNKNOWN_MEMBER_TYPE: Final = -1  # before KIP-1099
CLASSIC_MEMBER_TYPE: Final = 0
CONSUMER_MEMBER_TYPE: Final = 1


@dataclass(slots=True)
class ConsumerGroupDescribeRequest(Message):
    """Groups by id."""

    SPEC = request(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        Places((Level("group_ids", "", "group"),), (Level("groups", "group_id", "group"),)),
        max_elements=LOOK_UPS,
    )

    group_ids: list[String] = field(default_factory=list)
    include_authorized_operations: Bool = False


@dataclass(slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class Assignment:
    """What a member has, or is to have."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    """One member of a group. ``member_type`` is the protocol that it speaks."""

    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)
    subscribed_topic_regex: String | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[Int8, In("1+", ignorable=True)] = UNKNOWN_MEMBER_TYPE


@dataclass(slots=True)
class DescribedGroup:
    """One group, or why it cannot be described."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = field(default_factory=list)
    # A bit per operation.
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@dataclass(slots=True)
class ConsumerGroupDescribeResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.CONSUMER_GROUP_DESCRIBE)

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
