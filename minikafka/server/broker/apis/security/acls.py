"""DescribeAcls, CreateAcls, DeleteAcls (keys 29 to 31). Any broker serves them.

As in Kafka, a request with a code that is not known cannot be read, and its connection is closed.
Without an authorizer they are refused with SECURITY_DISABLED.
"""

from __future__ import annotations

import traceback
from collections.abc import Coroutine, Sequence
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from minikafka.core.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.core.security.authorizer import DeletedAcls
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, before, needs_or
from minikafka.server.broker.apis.request import Reply, RequestContext, UnreadableRequest
from minikafka.server.broker.quotas import Quota

C = TypeVar("C", bound=IntEnum)
AclRequest: TypeAlias = DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest


def require_known_codes(request: AclRequest) -> None:
    """Raise UnreadableRequest for a request with a code that is not known."""
    rows: Sequence[Any]
    if isinstance(request, CreateAclsRequest):
        for creation in request.creations:
            _code(AclResourceType, creation.resource_type)
            _code(PatternType, creation.resource_pattern_type)
            _code(AclOperation, creation.operation)
            _code(PermissionType, creation.permission_type)
        return
    rows = [request] if isinstance(request, DescribeAclsRequest) else request.filters
    for row in rows:
        _filter(row)


def _code(kind: type[C], code: int) -> C:
    found = kind(code)
    if found.name == "UNKNOWN":
        raise UnreadableRequest("an ACL with an UNKNOWN element")
    return found


def _filter(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        PatternFilter(
            _code(AclResourceType, row.resource_type_filter),
            row.resource_name_filter,
            _code(PatternType, row.pattern_type_filter),
        ),
        EntryFilter(
            row.principal_filter,
            row.host_filter,
            _code(AclOperation, row.operation),
            _code(PermissionType, row.permission_type),
        ),
    )


class AclHandlers:
    """The handlers of the three APIs, each an ``ImmediateHandler``."""

    def __init__(self, authorization: Authorization, log: EventLog | None = None) -> None:
        self._authorization = authorization
        self._authorizer = authorization.authorizer
        self._log = log or event_log("authorizer")

    def describe(
        self, context: RequestContext, request: DescribeAclsRequest, reply: Reply
    ) -> Coroutine[Any, Any, None]:
        return self._describe(_filter(request), reply)

    async def _describe(self, selected: AclFilter, reply: Reply) -> None:
        resources: list[DescribeAclsResource] = []
        try:
            slices = Slices()
            async for pattern in slices.over(self._authorizer.acl_patterns()):
                found = self._authorizer.acls(selected, pattern)
                if found:
                    resources.append(await _described(pattern, found, slices))
        except Exception as error:
            failure = self._failure(error)
            reply(DescribeAclsResponse(error_code=failure.code, error_message=failure.message))
            return
        reply(DescribeAclsResponse(resources=resources))

    def create(
        self, context: RequestContext, request: CreateAclsRequest, reply: Reply
    ) -> Coroutine[Any, Any, None]:
        require_known_codes(request)
        return self._create(context, request, reply)

    async def _create(
        self, context: RequestContext, request: CreateAclsRequest, reply: Reply
    ) -> None:
        if any(not _is_definite(row) for row in request.creations):
            row = AclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            reply(CreateAclsResponse(results=[row] * len(request.creations)))
            return
        bindings = [_binding(row) async for row in in_slices(request.creations)]
        errors = [_name_error(binding.pattern) for binding in bindings]
        valid = [b for b, error in zip(bindings, errors, strict=True) if error is None]
        requester = self._authorization.requester(context)
        try:
            results = iter(await self._authorizer.create_acls(requester, valid))
        except Exception as failure:
            results = iter([self._failure(failure)] * len(valid))
        rows = []
        for error in errors:
            outcome = next(results) if error is None else error
            rows.append(
                AclCreationResult()
                if outcome is None
                else AclCreationResult(outcome.code, outcome.message)
            )
        reply(CreateAclsResponse(results=rows))

    def delete(
        self, context: RequestContext, request: DeleteAclsRequest, reply: Reply
    ) -> Coroutine[Any, Any, None]:
        return self._delete(context, [_filter(row) for row in request.filters], reply)

    async def _delete(
        self, context: RequestContext, filters: Sequence[AclFilter], reply: Reply
    ) -> None:
        requester = self._authorization.requester(context)
        try:
            deleted = await self._authorizer.delete_acls(requester, filters)
        except Exception as error:
            failure = self._failure(error)
            row = DeleteAclsFilterResult(failure.code, failure.message)
            reply(DeleteAclsResponse(filter_results=[row] * len(filters)))
            return
        slices = Slices()
        results = [await _deletions(result, slices) async for result in slices.over(deleted)]
        reply(DeleteAclsResponse(filter_results=results))

    def _failure(self, error: Exception) -> KafkaError:
        """Return the error of a request whose authorizer has raised ``error``."""
        if isinstance(error, KafkaError):
            return error
        self._log.error(
            "authorizer_failed",
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


async def _described(
    pattern: ResourcePattern, found: Sequence[AclBinding], slices: Slices
) -> DescribeAclsResource:
    return DescribeAclsResource(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        [
            AclDescription(entry.principal, entry.host, entry.operation, entry.permission)
            async for _, entry in slices.over(found)
        ],
    )


async def _deletions(result: DeletedAcls, slices: Slices) -> DeleteAclsFilterResult:
    rows = []
    async for binding, error in slices.over(result.bindings.items()):
        pattern, entry = binding
        rows.append(
            DeleteAclsMatchingAcl(
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
                pattern.resource_type,
                pattern.name,
                pattern.pattern_type,
                entry.principal,
                entry.host,
                entry.operation,
                entry.permission,
            )
        )
    return DeleteAclsFilterResult(ErrorCode.NONE, None, rows)


def _is_definite(row: AclCreation) -> bool:
    """Whether the entry may be stored: no code of it is for filters only."""
    return (
        AclResourceType(row.resource_type).is_definite
        and PatternType(row.resource_pattern_type).is_definite
        and AclOperation(row.operation).is_definite
        and PermissionType(row.permission_type).is_definite
    )


def _binding(row: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            AclResourceType(row.resource_type),
            row.resource_name,
            PatternType(row.resource_pattern_type),
        ),
        AclEntry(
            row.principal,
            row.host,
            AclOperation(row.operation),
            PermissionType(row.permission_type),
        ),
    )


def _name_error(pattern: ResourcePattern) -> KafkaError | None:
    if pattern.resource_type is AclResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        )
    if not pattern.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None


NO_AUTHORIZER = "No Authorizer is configured."


def refuse_acl_description(
    context: RequestContext, request: DescribeAclsRequest, reply: Reply
) -> None:
    require_known_codes(request)
    reply(
        DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    )


def refuse_acl_creation(context: RequestContext, request: CreateAclsRequest, reply: Reply) -> None:
    require_known_codes(request)
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    reply(CreateAclsResponse(results=[refused] * len(request.creations)))


def refuse_acl_deletion(context: RequestContext, request: DeleteAclsRequest, reply: Reply) -> None:
    require_known_codes(request)
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    reply(DeleteAclsResponse(filter_results=[refused] * len(request.filters)))


def _checked(operation: AclOperation) -> ApiGuard:
    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        require_known_codes(request)
        authorization.require_on_cluster(context, operation)
        return Admitted(request)

    return before(admit)


def _refused_creations(_: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    row = AclCreationResult(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    )
    return CreateAclsResponse(results=[row] * len(request.creations))


def _refused_deletions(_: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    row = DeleteAclsFilterResult(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    )
    return DeleteAclsResponse(filter_results=[row] * len(request.filters))


DESCRIBE_ACLS = Api(
    key=ApiKey.DESCRIBE_ACLS,
    handler=lambda broker: (
        refuse_acl_description
        if broker.authorization is None
        else AclHandlers(broker.authorization).describe
    ),
    task=False,
    authorization=_checked(AclOperation.DESCRIBE),
    quota=Quota.REQUESTS,
    changes_state=False,
)

CREATE_ACLS = Api(
    key=ApiKey.CREATE_ACLS,
    handler=lambda broker: (
        refuse_acl_creation
        if broker.authorization is None
        else AclHandlers(broker.authorization).create
    ),
    task=False,
    authorization=needs_or(AclOperation.ALTER, _refused_creations, require_known_codes),
    quota=Quota.REQUESTS,
    changes_state=False,
)

DELETE_ACLS = Api(
    key=ApiKey.DELETE_ACLS,
    handler=lambda broker: (
        refuse_acl_deletion
        if broker.authorization is None
        else AclHandlers(broker.authorization).delete
    ),
    task=False,
    authorization=needs_or(AclOperation.ALTER, _refused_deletions, require_known_codes),
    quota=Quota.REQUESTS,
    changes_state=False,
)
