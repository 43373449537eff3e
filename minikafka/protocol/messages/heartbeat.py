"""Heartbeat (key 12): a member shows that it is alive, and learns whether it has to join again."""

from __future__ import annotations

from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import ORDINARY, In, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class HeartbeatRequest(Message):
    """A sign of life in a generation."""

    SPEC = request(ApiKey.HEARTBEAT, IN_GROUP, max_elements=ORDINARY)

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, In("3+")] = None


@dataclass(slots=True)
class HeartbeatResponse(Message):
    """REBALANCE_IN_PROGRESS: join again."""

    SPEC = response(ApiKey.HEARTBEAT)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Int16 = 0
