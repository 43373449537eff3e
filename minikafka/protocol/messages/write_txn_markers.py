"""WriteTxnMarkers (key 27): a coordinator has the ends of transactions written to partitions."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import TOPIC_PARTITIONS, Level, Places, topic_partitions
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarker:
    """The end of one transaction. ``transaction_result`` True: it is committed.

    ``transaction_version`` 2: the producer has the epoch before (KIP-1228)."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, In("2+", ignorable=True)] = 0


@dataclass(slots=True)
class WriteTxnMarkersRequest(Message):
    """Markers for partitions that the receiver leads."""

    SPEC = request(
        ApiKey.WRITE_TXN_MARKERS,
        Places(
            (
                Level("markers", "producer_id", ""),
                *topic_partitions(partitions="partition_indexes", index=""),
            ),
            (Level("markers", "producer_id", ""), *TOPIC_PARTITIONS),
        ),
        max_elements=ORDINARY,
    )

    markers: list[WritableTxnMarker] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    """How it went for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    """How it went for partitions of one topic."""

    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerResult:
    """How it went for one transaction."""

    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class WriteTxnMarkersResponse(Message):
    """In the order of the request."""

    SPEC = response(ApiKey.WRITE_TXN_MARKERS)

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
