"""ElectLeaders (key 43): partitions that are to get another leader, and what came of it."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, topic_partitions
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ElectLeadersTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersRequest(Message):
    """Version 0 knows preferred elections only; ``topic_partitions`` None means all."""

    SPEC = request(
        ApiKey.ELECT_LEADERS,
        Places(
            topic_partitions("topic_partitions", "topic", index=""),
            topic_partitions(
                "replica_election_results", "topic", "partition_result", "partition_id"
            ),
        ),
        max_elements=WHOLE_CLUSTER,
    )

    # 0 preferred, 1 unclean (KIP-460).
    election_type: Annotated[Int8, In("1+")] = 0
    topic_partitions: list[ElectLeadersTopic] | None = field(default_factory=list)
    timeout_ms: Int32 = 60000


@dataclass(slots=True)
class ElectLeadersPartitionResult:
    """How it went for one partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class ElectLeadersTopicResult:
    """How it went for partitions of one topic."""

    topic: String = ""
    partition_result: list[ElectLeadersPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class ElectLeadersResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.ELECT_LEADERS)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In("1+")] = 0
    replica_election_results: list[ElectLeadersTopicResult] = field(default_factory=list)
