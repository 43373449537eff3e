"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Addresses, Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)

_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}


@dataclass(slots=True)
class FindCoordinatorRequest(Message):
    """One ``key`` up to version 3, many ``coordinator_keys`` from 4."""

    SPEC = request(
        ApiKey.FIND_COORDINATOR,
        Places(values=_NO_NODE),
        Places(
            (Level("coordinator_keys", "", "coordinator"),),
            (Level("coordinators", "key", "coordinator"),),
            since=4,
            values=_NO_NODE,
        ),
        max_elements=LOOK_UPS,
    )

    key: Annotated[String, In("0-3")] = ""
    # 0 group, 1 transactional id.
    key_type: Annotated[Int8, In("1+")] = 0
    coordinator_keys: Annotated[list[String], In("4+")] = field(default_factory=list)


@dataclass(slots=True)
class Coordinator:
    """Who coordinates one key."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class FindCoordinatorResponse(Message):
    """One coordinator up to version 3, many from 4."""

    SPEC = response(ApiKey.FIND_COORDINATOR, Addresses(""), Addresses("coordinators", since=4))

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, In("0-3")] = 0
    error_message: Annotated[String | None, In("1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, In("0-3")] = 0
    host: Annotated[String, In("0-3")] = ""
    port: Annotated[Int32, In("0-3")] = 0
    coordinators: Annotated[list[Coordinator], In("4+")] = field(default_factory=list)
