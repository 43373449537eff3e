"""JoinGroup (key 11): a member asks to be in the next generation of a group."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places
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


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    """A way of assigning that the member knows, with what it says under it."""

    name: String = ""
    metadata: Bytes = b""


@dataclass(slots=True)
class JoinGroupRequest(Message):
    """``protocols`` by preference. Times are milliseconds."""

    SPEC = request(
        ApiKey.JOIN_GROUP,
        Places(group="group_id", values={"generation_id": -1, "protocol_name": ""}),
        Places(since=7, group="group_id", values={"generation_id": -1, "protocol_name": None}),
        max_elements=LOOK_UPS,
    )

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, In("1+", ignorable=True)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, In("5+")] = None
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: Annotated[String | None, In("8+", ignorable=True)] = None


@dataclass(slots=True)
class JoinGroupResponseMember:
    """A member as the leader sees it."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, In("5+", ignorable=True)] = None
    metadata: Bytes = b""


@dataclass(slots=True)
class JoinGroupResponse(Message):
    """The generation. Only the leader gets ``members``; it assigns partitions unless
    ``skip_assignment`` is set."""

    SPEC = response(ApiKey.JOIN_GROUP)

    throttle_time_ms: Annotated[Int32, In("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, In("7+", ignorable=True)] = None
    protocol_name: Annotated[String | None, In("0+", nullable="7+")] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, In("9+")] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
