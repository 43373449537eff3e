"""DeleteGroups (key 42): groups without members go, with their offsets."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import LOOK_UPS, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class DeleteGroupsRequest(Message):
    """Groups by id."""

    SPEC = request(
        ApiKey.DELETE_GROUPS,
        Places((Level("groups_names", "", "group"),), (Level("results", "group_id", "group"),)),
        max_elements=LOOK_UPS,
    )

    groups_names: list[String] = field(default_factory=list)


@dataclass(slots=True)
class DeletableGroupResult:
    """How it went for one group."""

    group_id: String = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class DeleteGroupsResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.DELETE_GROUPS)

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
