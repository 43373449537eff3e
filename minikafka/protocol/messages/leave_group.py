"""LeaveGroup (key 13): members go, by themselves or removed by an administrator."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import LOOK_UPS, In, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class MemberIdentity:
    """A member by id; a static one may go by its instance id alone."""

    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, In("5+", ignorable=True)] = None


@dataclass(slots=True)
class LeaveGroupRequest(Message):
    """One member up to version 2, many from 3."""

    SPEC = request(ApiKey.LEAVE_GROUP, IN_GROUP, max_elements=LOOK_UPS)

    group_id: String = ""
    member_id: Annotated[String, In("0-2")] = ""
    members: Annotated[list[MemberIdentity], In("3+")] = field(default_factory=list)


@dataclass(slots=True)
class MemberResponse:
    """How it went for one member."""

    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class LeaveGroupResponse(Message):
    """One result per member from version 3."""

    SPEC = response(ApiKey.LEAVE_GROUP)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], In("3+")] = field(default_factory=list)
