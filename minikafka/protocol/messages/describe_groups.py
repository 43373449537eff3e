"""DescribeGroups (key 15): groups with their members."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bool,
    Bytes,
    In,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)

AUTHORIZED_OPERATIONS_OMITTED = -(1 << 31)  # the client did not request them


@dataclass(slots=True)
class DescribeGroupsRequest(Message):
    """Groups by id."""

    SPEC = request(
        ApiKey.DESCRIBE_GROUPS,
        Places((Level("groups", "", "group"),), (Level("groups", "group_id", "group"),)),
        max_elements=LOOK_UPS,
    )

    groups: list[String] = field(default_factory=list)
    include_authorized_operations: Annotated[Bool, In("3+")] = False


@dataclass(slots=True)
class DescribedGroupMember:
    """Metadata and assignment are filled in for stable groups only."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, In("4+", ignorable=True)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@dataclass(slots=True)
class DescribedGroup:
    """``protocol_data`` is the name of the protocol chosen.

    From version 6 an unknown group has the error GROUP_ID_NOT_FOUND (KIP-1043)."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, In("6+", ignorable=True)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    # A bit per operation.
    authorized_operations: Annotated[Int32, In("3+")] = AUTHORIZED_OPERATIONS_OMITTED


@dataclass(slots=True)
class DescribeGroupsResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.DESCRIBE_GROUPS)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    groups: list[DescribedGroup] = field(default_factory=list)
