"""AlterPartitionReassignments (key 45): replicas that partitions are to move to (KIP-455)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import PARTITION_ERRORS, TOPIC_PARTITIONS, Places, topic_partitions
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    Bool,
    In,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ReassignablePartition:
    """``replicas`` None: give up the reassignment that is under way."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


@dataclass(slots=True)
class ReassignableTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Message):
    """What is to move. ``allow_replication_factor_change`` False: refuse a target with more or
    fewer replicas than the partition has (KIP-860)."""

    SPEC = request(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        Places(
            TOPIC_PARTITIONS,
            topic_partitions("responses"),
            error_level=0,
            row_errors=PARTITION_ERRORS,
        ),
        # kafka-reassign-partitions sends all partitions of its file at once.
        max_elements=WHOLE_CLUSTER,
    )

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, In("1+")] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@dataclass(slots=True)
class ReassignablePartitionResponse:
    """Whether one partition's reassignment has begun, or been given up."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class ReassignableTopicResponse:
    """Answers for partitions of one topic."""

    name: String = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse(Message):
    """One result per partition, or an error of the whole. ``allow_replication_factor_change`` is
    that of the request."""

    SPEC = response(ApiKey.ALTER_PARTITION_REASSIGNMENTS)

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, In("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
