"""UpdateMetadata (key 6): the controller fills the metadata caches of the brokers."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    WHOLE_CLUSTER,
    Bool,
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


@dataclass(slots=True)
class UpdateMetadataPartitionState:
    """Leader, replicas and ISR of a partition."""

    topic_name: Annotated[String, In("0-4", ignorable=True)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    zk_version: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    offline_replicas: Annotated[list[Int32], In("4+", ignorable=True)] = field(default_factory=list)


@dataclass(slots=True)
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Annotated[Uuid, In("7+", ignorable=True)] = ZERO_UUID
    partition_states: Annotated[list[UpdateMetadataPartitionState], In("0+", encoded=True)] = field(
        default_factory=list
    )


@dataclass(slots=True)
class UpdateMetadataEndpoint:
    """One listener of a broker."""

    port: Int32 = 0
    host: String = ""
    listener: Annotated[String, In("3+", ignorable=True)] = ""
    security_protocol: Int16 = 0


@dataclass(slots=True)
class UpdateMetadataBroker:
    """A live broker."""

    id: Int32 = 0
    v0_host: Annotated[String, In("0", ignorable=True)] = ""
    v0_port: Annotated[Int32, In("0", ignorable=True)] = 0
    endpoints: Annotated[list[UpdateMetadataEndpoint], In("1+", ignorable=True)] = field(
        default_factory=list
    )
    rack: Annotated[String | None, In("2+", ignorable=True)] = ""


@dataclass(slots=True)
class UpdateMetadataRequest(Message):
    """Up to version 4 a flat list of partitions, from 5 grouped by topic."""

    SPEC = request(ApiKey.UPDATE_METADATA, WHOLE, max_elements=WHOLE_CLUSTER)

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[Bool, In("8+")] = False
    # 0 unknown, 1 incremental, 2 all partitions (KIP-866).
    type: Annotated[Int8, In("8+", tag=0)] = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, In("5+", ignorable=True)] = -1
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], In("0-4")] = field(
        default_factory=list
    )
    topic_states: Annotated[list[UpdateMetadataTopicState], In("5+", encoded=True)] = field(
        default_factory=list
    )
    live_brokers: list[UpdateMetadataBroker] = field(default_factory=list)


@dataclass(slots=True)
class UpdateMetadataResponse(Message):
    """Whether the whole update was taken."""

    SPEC = response(ApiKey.UPDATE_METADATA)

    error_code: Int16 = 0
