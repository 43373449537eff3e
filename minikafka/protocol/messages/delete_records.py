"""DeleteRecords (key 21): partitions to cut from the front, and how far they were cut."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import TOPIC_PARTITIONS, Places
from minikafka.protocol.schema import MANY, Int16, Int32, Int64, Message, String, request, response


@dataclass(slots=True)
class DeleteRecordsPartition:
    """Delete everything before ``offset``; -1 stands for the high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@dataclass(slots=True)
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRecordsRequest(Message):
    """What to delete at the leaders, and how long to wait for their followers."""

    SPEC = request(
        ApiKey.DELETE_RECORDS,
        Places(TOPIC_PARTITIONS, TOPIC_PARTITIONS, values={"low_watermark": -1}),
        max_elements=MANY,
    )

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


@dataclass(slots=True)
class DeleteRecordsPartitionResult:
    """``low_watermark``: where the log starts on all live replicas; -1 after an error."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class DeleteRecordsTopicResult:
    """The results for one topic."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class DeleteRecordsResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.DELETE_RECORDS)

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
