"""ControlledShutdown (key 7): a broker asks the controller to move its leaderships away."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    ORDINARY,
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
class ControlledShutdownRequest(Message):
    """Version 0 travels under a header without client id."""

    SPEC = request(ApiKey.CONTROLLED_SHUTDOWN, WHOLE, max_elements=ORDINARY)

    broker_id: Int32 = 0
    broker_epoch: Annotated[Int64, In("2+", ignorable=True)] = -1


@dataclass(slots=True)
class RemainingPartition:
    """A partition that the broker still leads."""

    topic_name: String = ""
    partition_index: Int32 = 0


@dataclass(slots=True)
class ControlledShutdownResponse(Message):
    """Done when no partition remains."""

    SPEC = response(ApiKey.CONTROLLED_SHUTDOWN)

    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = field(default_factory=list)
