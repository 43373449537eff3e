"""ListGroups (key 16): the groups that the broker coordinates."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import LOOK_UPS, In, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class ListGroupsRequest(Message):
    """Empty filters take everything (KIP-518, KIP-848)."""

    SPEC = request(ApiKey.LIST_GROUPS, WHOLE, max_elements=LOOK_UPS)

    states_filter: Annotated[list[String], In("4+")] = field(default_factory=list)
    types_filter: Annotated[list[String], In("5+")] = field(default_factory=list)


@dataclass(slots=True)
class ListedGroup:
    """A group in short."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, In("4+", ignorable=True)] = ""
    group_type: Annotated[String, In("5+", ignorable=True)] = ""


@dataclass(slots=True)
class ListGroupsResponse(Message):
    """The groups of one broker."""

    SPEC = response(ApiKey.LIST_GROUPS)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
