"""ShareFetch (key 78): a member of a share group acquires records, and acknowledges others."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Addresses, Places, topic_partitions
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    request,
    response,
)

# Share session epochs that are no epochs.
OPENS: Final = 0
CLOSES: Final = -1

# Errors of single share-partitions. All others are those of the session or of the group.
SHARE_PARTITION_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_RECORD_STATE,
    }
)


@dataclass(slots=True)
class AcknowledgementBatch:
    """What the member says of records, both offsets inclusive: one type for all of them, or one for
    each. 0 is a gap, 1 accept, 2 release, 3 reject, 4 renew (since version 2)."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


@dataclass(slots=True)
class FetchPartition:
    """A partition to fetch from, and acknowledgements of records in it."""

    partition_index: Int32 = 0
    partition_max_bytes: Annotated[Int32, In("0", ignorable=True)] = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@dataclass(slots=True)
class FetchTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True)
class ForgottenTopic:
    """Partitions that leave the share session."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ShareFetchRequest(Message):
    """Fetch from the partitions of the share session, which ``topics`` join.

    ``share_acquire_mode`` 0 acquires whole record batches, 1 at most ``max_records``."""

    SPEC = request(
        ApiKey.SHARE_FETCH,
        Places(
            topic_partitions(key="topic_id"),
            topic_partitions("responses", "topic_id"),
            group="group_id",
            error_level=0,
            row_errors=SHARE_PARTITION_ERRORS,
            values={"records": b""},
        ),
        max_elements=ORDINARY,
    )

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Annotated[Int32, In("0+", varies=True)] = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Annotated[Int32, In("1+")] = 0
    batch_size: Annotated[Int32, In("1+")] = 0
    share_acquire_mode: Annotated[Int8, In("2+", ignorable=True)] = 0
    is_renew_ack: Annotated[Bool, In("2+")] = False
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """The leader that the broker knows of, or -1."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@dataclass(slots=True)
class AcquiredRecords:
    """Records that the member has now, both offsets inclusive, and how often they were acquired."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@dataclass(slots=True)
class PartitionData:
    """Records of one partition, those among them that are acquired, and the error of the
    acknowledgements."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: Annotated[Records | None, In("0+", nullable="0")] = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


@dataclass(slots=True)
class ShareFetchableTopicResponse:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint:
    """Where a leader named in the response can be reached."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(slots=True)
class ShareFetchResponse(Message):
    """``acquisition_lock_timeout_ms`` is how long acquired records are the member's."""

    SPEC = response(ApiKey.SHARE_FETCH, Addresses("node_endpoints"))

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, In("1+")] = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
