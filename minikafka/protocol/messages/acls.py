"""DescribeAcls, CreateAcls and DeleteAcls (keys 29 to 31).

Resource types, pattern types, operations and permissions are Kafka's codes. Version 1 added pattern
types (KIP-290); before that every pattern is literal.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE, Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    ORDINARY,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)

LITERAL = 3  # the pattern type of every resource before version 1


@dataclass(slots=True)
class DescribeAclsRequest(Message):
    """A filter. A null name, principal or host matches any."""

    SPEC = request(ApiKey.DESCRIBE_ACLS, WHOLE, max_elements=ORDINARY)

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In("1+")] = LITERAL
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class AclDescription:
    """One entry of a resource's list."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DescribeAclsResource:
    """A resource pattern that has entries."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In("1+")] = LITERAL
    acls: list[AclDescription] = field(default_factory=list)


@dataclass(slots=True)
class DescribeAclsResponse(Message):
    """The resources whose entries match the filter."""

    SPEC = response(ApiKey.DESCRIBE_ACLS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)


@dataclass(slots=True)
class AclCreation:
    """One entry to add to a resource's list."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Annotated[Int8, In("1+")] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class CreateAclsRequest(Message):
    """Entries to add; an existing one counts as added."""

    SPEC = request(
        ApiKey.CREATE_ACLS,
        Places((Level("creations", None),), (Level("results", None),)),
        max_elements=LOOK_UPS,
    )

    creations: list[AclCreation] = field(default_factory=list)


@dataclass(slots=True)
class AclCreationResult:
    """The outcome for one entry."""

    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class CreateAclsResponse(Message):
    """One result per entry, in the order of the request."""

    SPEC = response(ApiKey.CREATE_ACLS)

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsFilter:
    """A filter as in DescribeAcls; every matching entry is removed."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Annotated[Int8, In("1+")] = LITERAL
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DeleteAclsRequest(Message):
    """Filters, applied in order."""

    SPEC = request(
        ApiKey.DELETE_ACLS,
        Places((Level("filters", None),), (Level("filter_results", None),)),
        max_elements=LOOK_UPS,
    )

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsMatchingAcl:
    """An entry that matched, and the outcome of its removal."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Annotated[Int8, In("1+")] = LITERAL
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(slots=True)
class DeleteAclsFilterResult:
    """The entries that one filter matched."""

    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True)
class DeleteAclsResponse(Message):
    """One result per filter, in the order of the request."""

    SPEC = response(ApiKey.DELETE_ACLS)

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
