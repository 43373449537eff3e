"""SyncGroup (key 14): the leader hands in all assignments, each member gets its own."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import (
    ORDINARY,
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
class SyncGroupRequestAssignment:
    """What one member gets."""

    member_id: String = ""
    assignment: Bytes = b""


@dataclass(slots=True)
class SyncGroupRequest(Message):
    """``assignments`` come from the leader only."""

    SPEC = request(ApiKey.SYNC_GROUP, IN_GROUP, max_elements=ORDINARY)

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, In("3+")] = None
    protocol_type: Annotated[String | None, In("5+", ignorable=True)] = None
    protocol_name: Annotated[String | None, In("5+", ignorable=True)] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@dataclass(slots=True)
class SyncGroupResponse(Message):
    """What the asker gets."""

    SPEC = response(ApiKey.SYNC_GROUP)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, In("5+", ignorable=True)] = None
    protocol_name: Annotated[String | None, In("5+", ignorable=True)] = None
    assignment: Bytes = b""
