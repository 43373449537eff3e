"""ShareGroupDescribe (key 77): share groups with their members."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_describe import Assignment
from minikafka.protocol.messages.describe_groups import AUTHORIZED_OPERATIONS_OMITTED
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
class ShareGroupDescribeRequest(Message):
    """Groups by id."""

    SPEC = request(
        ApiKey.SHARE_GROUP_DESCRIBE,
        Places((Level("group_ids", "", "group"),), (Level("groups", "group_id", "group"),)),
        max_elements=LOOK_UPS,
    )

    group_ids: list[String] = field(default_factory=list)
    include_authorized_operations: Bool = False


@dataclass(slots=True)
class Member:
    """One member of a group."""

    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)


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
class ShareGroupDescribeResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.SHARE_GROUP_DESCRIBE)

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
