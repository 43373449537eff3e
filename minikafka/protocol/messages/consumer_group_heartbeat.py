"""ConsumerGroupHeartbeat (key 68): a member of KIP-848's protocol, what it has and what it gets."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import IN_GROUP
from minikafka.protocol.schema import (
    ORDINARY,
    In,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)

# Member epochs of a request that are no epochs.
JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2  # a static member that will be back within its session time-out


@dataclass(slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest(Message):
    """None, or -1, for what has not changed since the last one.

    A ``member_id`` is made by the broker in version 0, and by the client from 1 (KIP-1082)."""

    SPEC = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, IN_GROUP, max_elements=ORDINARY)

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, In("1+")] = None
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


@dataclass(slots=True)
class Assignment:
    """What a member may consume."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse(Message):
    """``assignment`` None: as before."""

    SPEC = response(ApiKey.CONSUMER_GROUP_HEARTBEAT)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
