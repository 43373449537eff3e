"""Metadata (key 3): brokers, topics, partitions and who leads them."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Addresses, Level, Places
from minikafka.protocol.schema import (
    MANY,
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

AUTHORIZED_OPERATIONS_OMITTED = -(1 << 31)  # the client did not request them


@dataclass(slots=True)
class MetadataRequestTopic:
    """A topic by name, or by id from version 12."""

    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    name: Annotated[String | None, In("0+", nullable="10+")] = ""


@dataclass(slots=True)
class MetadataRequest(Message):
    """``topics`` None asks for all; so does an empty list in version 0."""

    SPEC = request(
        ApiKey.METADATA,
        Places((Level("topics", also=("topic_id",)),), (Level("topics", also=("topic_id",)),)),
        max_elements=MANY,
    )

    topics: Annotated[list[MetadataRequestTopic] | None, In("0+", nullable="1+")] = field(
        default_factory=list
    )
    allow_auto_topic_creation: Annotated[Bool, In("4+")] = True
    include_cluster_authorized_operations: Annotated[Bool, In("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, In("8+")] = False


@dataclass(slots=True)
class MetadataResponseBroker:
    """A live broker, by the listener the question came in on."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, In("1+", ignorable=True)] = None


@dataclass(slots=True)
class MetadataResponsePartition:
    """Leader, replicas and ISR of a partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In("7+", ignorable=True)] = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: Annotated[list[Int32], In("5+", ignorable=True)] = field(default_factory=list)


@dataclass(slots=True)
class MetadataResponseTopic:
    """A topic with its partitions, or an error."""

    error_code: Int16 = 0
    name: Annotated[String | None, In("0+", nullable="12+")] = ""
    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[Bool, In("1+", ignorable=True)] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    # A bit per operation.
    topic_authorized_operations: Annotated[Int32, In("8+")] = AUTHORIZED_OPERATIONS_OMITTED


@dataclass(slots=True)
class MetadataResponse(Message):
    """The cluster as the answering broker knows it, or an error of the whole request, which has no
    place before version 13."""

    SPEC = response(ApiKey.METADATA, Addresses("brokers"))

    throttle_time_ms: Annotated[Int32, In("3+", ignorable=True)] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[String | None, In("2+", ignorable=True)] = None
    controller_id: Annotated[Int32, In("1+", ignorable=True)] = -1
    topics: Annotated[list[MetadataResponseTopic], In("0+", encoded=True)] = field(
        default_factory=list
    )
    # A bit per operation.
    cluster_authorized_operations: Annotated[Int32, In("8-10")] = AUTHORIZED_OPERATIONS_OMITTED
    error_code: Annotated[Int16, In("13+", ignorable=True)] = 0
