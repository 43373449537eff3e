"""ShareAcknowledge (key 79): a member of a share group acknowledges records without a fetch."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.share_fetch import (
    SHARE_PARTITION_ERRORS,
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from minikafka.protocol.places import Addresses, Places, topic_partitions
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    In,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class AcknowledgePartition:
    """Acknowledgements of records in one partition."""

    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@dataclass(slots=True)
class AcknowledgeTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


@dataclass(slots=True)
class ShareAcknowledgeRequest(Message):
    """Acknowledge records. The share session's epoch is raised, or the session is closed."""

    SPEC = request(
        ApiKey.SHARE_ACKNOWLEDGE,
        Places(
            topic_partitions(key="topic_id"),
            topic_partitions("responses", "topic_id"),
            group="group_id",
            error_level=0,
            row_errors=SHARE_PARTITION_ERRORS,
        ),
        max_elements=ORDINARY,
    )

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Annotated[Int32, In("0+", varies=True)] = 0
    is_renew_ack: Annotated[Bool, In("2+")] = False
    topics: list[AcknowledgeTopic] = field(default_factory=list)


@dataclass(slots=True)
class PartitionData:
    """The error of the acknowledgements of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@dataclass(slots=True)
class ShareAcknowledgeTopicResponse:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class ShareAcknowledgeResponse(Message):
    """``acquisition_lock_timeout_ms`` is how long renewed records are the member's."""

    SPEC = response(ApiKey.SHARE_ACKNOWLEDGE, Addresses("node_endpoints"))

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, In("2+", ignorable=True)] = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
