"""DescribeCluster (key 60): cluster id, controller and brokers."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE, Addresses
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)

AUTHORIZED_OPERATIONS_OMITTED = -(1 << 31)  # the client did not request them


@dataclass(slots=True)
class DescribeClusterRequest(Message):
    """``endpoint_type``: 1 brokers, 2 controllers. ``include_fenced_brokers``: also brokers that
    are registered but not alive, which exist in KRaft only (KIP-1073)."""

    SPEC = request(ApiKey.DESCRIBE_CLUSTER, WHOLE, max_elements=ORDINARY)

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, In("1+")] = 1
    include_fenced_brokers: Annotated[Bool, In("2+")] = False


@dataclass(slots=True)
class DescribeClusterBroker:
    """A live broker, or a fenced one."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, In("2+")] = False


@dataclass(slots=True)
class DescribeClusterResponse(Message):
    """The cluster as the answering broker knows it."""

    SPEC = response(ApiKey.DESCRIBE_CLUSTER, Addresses("brokers", "broker_id"))

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, In("1+")] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    # A bit per operation.
    cluster_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
