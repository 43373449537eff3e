"""OffsetForLeaderEpoch (key 23): where a leader epoch ends in the leader's log."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, topic_partitions
from minikafka.protocol.schema import (
    MANY,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class OffsetForLeaderPartition:
    """The question for one partition."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, In("2+", ignorable=True)] = -1
    leader_epoch: Int32 = 0


@dataclass(slots=True)
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Message):
    """Which offset follows the last record of given epochs."""

    SPEC = request(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        Places(
            topic_partitions("topics", "topic", "partitions", "partition"),
            topic_partitions("topics", "topic", "partitions", "partition"),
            values={"leader_epoch": -1, "end_offset": -1},
        ),
        max_elements=MANY,
    )

    replica_id: Annotated[Int32, In("3+", ignorable=True)] = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@dataclass(slots=True)
class EpochEndOffset:
    """The largest epoch up to the asked one and its end; -1, -1 unknown."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, In("1+", ignorable=True)] = -1
    end_offset: Int64 = -1


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    """The results for one topic."""

    topic: String = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.OFFSET_FOR_LEADER_EPOCH)

    throttle_time_ms: Annotated[Int32, In("2+", ignorable=True)] = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
