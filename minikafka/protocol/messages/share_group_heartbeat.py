"""ShareGroupHeartbeat (key 76): a member of a share group, and the partitions that it reads."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_heartbeat import Assignment
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import ORDINARY, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class ShareGroupHeartbeatRequest(Message):
    """None for what has not changed since the last one. The client makes its ``member_id``; the
    epoch 0 joins, -1 leaves."""

    SPEC = request(ApiKey.SHARE_GROUP_HEARTBEAT, IN_GROUP, max_elements=ORDINARY)

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@dataclass(slots=True)
class ShareGroupHeartbeatResponse(Message):
    """``assignment`` None: as before."""

    SPEC = response(ApiKey.SHARE_GROUP_HEARTBEAT)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
