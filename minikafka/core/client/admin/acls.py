"""Calls about ACLs: describe, create and delete them. Any broker serves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka.core.client.calls import Call
from minikafka.core.security.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)


def describe_acls(selected: AclFilter) -> Call[list[AclBinding]]:
    """Build DescribeAcls."""
    pattern, entry = selected

    def read(response: DescribeAclsResponse) -> list[AclBinding]:
        _raise_for(response.error_code, response.error_message)
        return [
            _binding(
                (row.resource_type, row.resource_name, row.pattern_type),
                (acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for row in response.resources
            for acl in row.acls
        ]

    request = DescribeAclsRequest(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )
    return Call(request, read)


def create_acls(bindings: Iterable[AclBinding]) -> Call[list[KafkaError | None]]:
    """Build CreateAcls. The result has the error of each binding, None after a success."""

    def read(response: CreateAclsResponse) -> list[KafkaError | None]:
        return [_error(row.error_code, row.error_message) for row in response.results]

    rows = [
        AclCreation(
            pattern.resource_type,
            pattern.name,
            pattern.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission,
        )
        for pattern, entry in bindings
    ]
    return Call(CreateAclsRequest(rows), read)


def delete_acls(filters: Sequence[AclFilter]) -> Call[list[AclBinding]]:
    """Build DeleteAcls. The result has the deleted bindings; the first error is raised."""

    def read(response: DeleteAclsResponse) -> list[AclBinding]:
        deleted = []
        for result in response.filter_results:
            _raise_for(result.error_code, result.error_message)
            for row in result.matching_acls:
                _raise_for(row.error_code, row.error_message)
                pattern = row.resource_type, row.resource_name, row.pattern_type
                entry = row.principal, row.host, row.operation, row.permission_type
                deleted.append(_binding(pattern, entry))
        return deleted

    rows = [
        DeleteAclsFilter(
            pattern.resource_type,
            pattern.name,
            pattern.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission,
        )
        for pattern, entry in filters
    ]
    return Call(DeleteAclsRequest(rows), read)


def _error(code: int, message: str | None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else KafkaError(ErrorCode(code), message)


def _raise_for(code: int, message: str | None) -> None:
    error = _error(code, message)
    if error is not None:
        raise error


def _binding(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> AclBinding:
    kind, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return AclBinding(
        ResourcePattern(AclResourceType(kind), name, PatternType(pattern_type)),
        AclEntry(principal, host, AclOperation(operation), PermissionType(permission)),
    )
