"""TxnOffsetCommit (key 28): how far a group has come, if a transaction commits."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import TOPIC_PARTITIONS, Places
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
class TxnOffsetCommitRequestPartition:
    """The next offset to consume."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In("2+", ignorable=True)] = -1
    committed_metadata: String | None = ""


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitRequest(Message):
    """From version 3 with the consumer's place in its group (KIP-447), from 5 on without
    AddOffsetsToTxn before it (KIP-890)."""

    SPEC = request(
        ApiKey.TXN_OFFSET_COMMIT,
        Places(
            TOPIC_PARTITIONS,
            TOPIC_PARTITIONS,
            group="group_id",
            transactional_id="transactional_id",
        ),
        max_elements=MANY,
    )

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, In("3+")] = -1
    member_id: Annotated[String, In("3+")] = ""
    group_instance_id: Annotated[String | None, In("3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    """How it went for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    """How it went for partitions of one topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class TxnOffsetCommitResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.TXN_OFFSET_COMMIT)

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
