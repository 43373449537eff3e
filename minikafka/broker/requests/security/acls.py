"""DescribeAcls, CreateAcls and DeleteAcls (keys 29 to 31) on a broker without an authorizer.

As in Kafka, any broker answers them. A request with a code 0 (UNKNOWN) cannot be read.
"""

from __future__ import annotations

from minikafka.broker.requests.context import Reply, RequestContext, UnreadableRequest
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

UNKNOWN = 0  # the code of an unknown resource type, pattern type, operation and permission
NO_AUTHORIZER = "No Authorizer is configured."


def describe_acls(context: RequestContext, request: DescribeAclsRequest, reply: Reply) -> None:
    _require_known(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    reply(
        DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    )


def create_acls(context: RequestContext, request: CreateAclsRequest, reply: Reply) -> None:
    for row in request.creations:
        _require_known(
            row.resource_type, row.resource_pattern_type, row.operation, row.permission_type
        )
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    reply(CreateAclsResponse(results=[refused] * len(request.creations)))


def delete_acls(context: RequestContext, request: DeleteAclsRequest, reply: Reply) -> None:
    for row in request.filters:
        _require_known(
            row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type
        )
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    reply(DeleteAclsResponse(filter_results=[refused] * len(request.filters)))


def _require_known(*codes: int) -> None:
    """Raises UnreadableRequest."""
    if UNKNOWN in codes:
        raise UnreadableRequest("an ACL with an UNKNOWN element")
