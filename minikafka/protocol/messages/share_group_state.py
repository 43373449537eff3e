"""The APIs of the share coordinator (keys 83 to 87, KIP-932): brokers initialize, read, write and
delete the states of share-partitions, and read their summaries.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    ORDINARY,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    request,
    response,
)

_PARTITIONS: Final = Level("partitions", "partition", "partition")
_PLACES: Final = Places(
    (Level("topics", "topic_id"), _PARTITIONS),
    (Level("results", "topic_id"), _PARTITIONS),
    group="group_id",
)


@dataclass(slots=True)
class StateBatchRow:
    """Records of one delivery state, both offsets inclusive: 0 available, 2 acknowledged, 4
    archived."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@dataclass(slots=True)
class StatePartitionResult:
    """The error of one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class TopicResult:
    """The errors of partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[StatePartitionResult] = field(default_factory=list)


# -- InitializeShareGroupState


@dataclass(slots=True)
class InitializePartition:
    """A new state. ``start_offset`` is -1 if the leader of the partition shall choose it."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@dataclass(slots=True)
class InitializeTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[InitializePartition] = field(default_factory=list)


@dataclass(slots=True)
class InitializeShareGroupStateRequest(Message):
    """Begin, or begin again, at a start offset."""

    SPEC = request(ApiKey.INITIALIZE_SHARE_GROUP_STATE, _PLACES, max_elements=ORDINARY)

    group_id: String = ""
    topics: list[InitializeTopic] = field(default_factory=list)


@dataclass(slots=True)
class InitializeShareGroupStateResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.INITIALIZE_SHARE_GROUP_STATE)

    results: list[TopicResult] = field(default_factory=list)


# -- ReadShareGroupState


@dataclass(slots=True)
class ReadPartition:
    """A partition, and the leader epoch in which the sender leads it (-1: it does not)."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@dataclass(slots=True)
class ReadTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[ReadPartition] = field(default_factory=list)


@dataclass(slots=True)
class ReadShareGroupStateRequest(Message):
    """Read whole states, as the leader of the partitions."""

    SPEC = request(ApiKey.READ_SHARE_GROUP_STATE, _PLACES, max_elements=ORDINARY)

    group_id: String = ""
    topics: list[ReadTopic] = field(default_factory=list)


@dataclass(slots=True)
class StateReadResult:
    """The state of one partition, or its error. ``start_offset`` is -1 before the first write."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatchRow] = field(default_factory=list)


@dataclass(slots=True)
class ReadTopicResult:
    """The states of partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[StateReadResult] = field(default_factory=list)


@dataclass(slots=True)
class ReadShareGroupStateResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.READ_SHARE_GROUP_STATE)

    results: list[ReadTopicResult] = field(default_factory=list)


# -- WriteShareGroupState


@dataclass(slots=True)
class WritePartition:
    """A change of a state. ``start_offset`` is -1 if it has not changed.

    ``delivery_complete_count`` is the number of offsets from the start offset on that need no
    delivery any more, or -1 (KIP-1226)."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, In("1+", ignorable=True)] = -1
    state_batches: list[StateBatchRow] = field(default_factory=list)


@dataclass(slots=True)
class WriteTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[WritePartition] = field(default_factory=list)


@dataclass(slots=True)
class WriteShareGroupStateRequest(Message):
    """Change states, as the leader of the partitions."""

    SPEC = request(ApiKey.WRITE_SHARE_GROUP_STATE, _PLACES, max_elements=ORDINARY)

    group_id: String = ""
    topics: list[WriteTopic] = field(default_factory=list)


@dataclass(slots=True)
class WriteShareGroupStateResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.WRITE_SHARE_GROUP_STATE)

    results: list[TopicResult] = field(default_factory=list)


# -- DeleteShareGroupState


@dataclass(slots=True)
class DeletePartition:
    """A partition."""

    partition: Int32 = 0


@dataclass(slots=True)
class DeleteTopic:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[DeletePartition] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupStateRequest(Message):
    """Forget states."""

    SPEC = request(ApiKey.DELETE_SHARE_GROUP_STATE, _PLACES, max_elements=ORDINARY)

    group_id: String = ""
    topics: list[DeleteTopic] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupStateResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.DELETE_SHARE_GROUP_STATE)

    results: list[TopicResult] = field(default_factory=list)


# -- ReadShareGroupStateSummary


@dataclass(slots=True)
class ReadShareGroupStateSummaryRequest(Message):
    """Read where partitions start. The leader epochs are not checked."""

    SPEC = request(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, _PLACES, max_elements=ORDINARY)

    group_id: String = ""
    topics: list[ReadTopic] = field(default_factory=list)


@dataclass(slots=True)
class SummaryResult:
    """Where one partition starts, or its error. ``start_offset`` is -1 if it has not begun."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, In("1+", ignorable=True)] = -1


@dataclass(slots=True)
class SummaryTopicResult:
    """Where partitions of one topic start."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[SummaryResult] = field(default_factory=list)


@dataclass(slots=True)
class ReadShareGroupStateSummaryResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)

    results: list[SummaryTopicResult] = field(default_factory=list)
