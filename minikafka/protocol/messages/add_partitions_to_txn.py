"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write to."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places, topic_partitions
from minikafka.protocol.schema import (
    MANY,
    Bool,
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
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    """One transaction. ``verify_only``: report which partitions are in it, and change nothing."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Message):
    """Producers send up to version 3, for one transaction; brokers ask for many from 4."""

    SPEC = request(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        Places(
            topic_partitions("v3_and_below_topics", index=""),
            topic_partitions("results_by_topic_v3_and_below", partitions="results_by_partition"),
            transactional_id="v3_and_below_transactional_id",
        ),
        Places(
            (
                Level("transactions", "transactional_id", "transactional_id"),
                *topic_partitions(index=""),
            ),
            (
                Level("results_by_transaction", "transactional_id", "transactional_id"),
                *topic_partitions("topic_results", partitions="results_by_partition"),
            ),
            since=4,
        ),
        max_elements=MANY,
    )

    transactions: Annotated[list[AddPartitionsToTxnTransaction], In("4+")] = field(
        default_factory=list
    )
    v3_and_below_transactional_id: Annotated[String, In("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, In("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, In("0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], In("0-3")] = field(
        default_factory=list
    )


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    """How it went for one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    """How it went for partitions of one topic."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    """How it went for one transaction."""

    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.ADD_PARTITIONS_TO_TXN)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, In("4+", ignorable=True)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], In("4+")] = field(
        default_factory=list
    )
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], In("0-3")] = (
        field(default_factory=list)
    )
