"""Calls about ACLs, delegation tokens and SCRAM credentials.

Any broker serves them, but others know a new token a little later. So all calls about tokens go to
one broker, that of the controller.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from minikafka.core.client.calls import Call, ControllerCall, error_of, raise_for
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
from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.core.security.scram_credentials import MECHANISMS, Deletion, Upsertion
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal
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
from minikafka.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)


def describe_acls(selected: AclFilter) -> Call[list[AclBinding]]:
    """Build DescribeAcls."""

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

    return Call(DescribeAclsRequest(*(*selected.pattern, *selected.entry)), read)


def create_acls(bindings: Iterable[AclBinding]) -> Call[list[KafkaError | None]]:
    """Build CreateAcls. The result has the error of each binding, None after a success."""

    def read(response: CreateAclsResponse) -> list[KafkaError | None]:
        return [_error(row.error_code, row.error_message) for row in response.results]

    rows = [AclCreation(*(*pattern, *entry)) for pattern, entry in bindings]
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

    rows = [DeleteAclsFilter(*(*pattern, *entry)) for pattern, entry in filters]
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


@dataclass(frozen=True, slots=True)
class SecretToken:
    """A delegation token with its secret."""

    token: DelegationToken
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password of a login with the token, whose user name is the token's id."""
        return base64.b64encode(self.hmac).decode()


def create_token(
    owner: Principal | None, renewers: Iterable[Principal], max_lifetime_ms: int
) -> ControllerCall[SecretToken]:
    """Build CreateDelegationToken."""
    renewing = tuple(renewers)

    def read(response: CreateDelegationTokenResponse) -> SecretToken:
        raise_for(response.error_code)
        made_for = Principal(response.principal_name, response.principal_type)
        token = DelegationToken(
            response.token_id,
            made_for,
            _requester(
                response.token_requester_principal_type,
                response.token_requester_principal_name,
                made_for,
            ),
            renewing,
            response.issue_timestamp_ms,
            response.max_timestamp_ms,
            response.expiry_timestamp_ms,
        )
        return SecretToken(token, bytes(response.hmac))

    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(renewer.type, renewer.name) for renewer in renewing],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type = owner.type
        request.owner_principal_name = owner.name
    return ControllerCall(request, read)


def renew_token(hmac: bytes, period_ms: int) -> ControllerCall[int]:
    """Build RenewDelegationToken. The result is when the token expires."""

    def read(response: RenewDelegationTokenResponse) -> int:
        raise_for(response.error_code)
        return response.expiry_timestamp_ms

    return ControllerCall(RenewDelegationTokenRequest(hmac, period_ms), read)


def expire_token(hmac: bytes, period_ms: int) -> ControllerCall[int]:
    """Build ExpireDelegationToken. The result is when the token expires."""

    def read(response: ExpireDelegationTokenResponse) -> int:
        raise_for(response.error_code)
        return response.expiry_timestamp_ms

    return ControllerCall(ExpireDelegationTokenRequest(hmac, period_ms), read)


def describe_tokens(owners: Iterable[Principal] | None) -> ControllerCall[list[SecretToken]]:
    """Build DescribeDelegationToken. None describes the tokens of all owners."""

    def read(response: DescribeDelegationTokenResponse) -> list[SecretToken]:
        raise_for(response.error_code)
        return [_described(row) for row in response.tokens]

    rows = None
    if owners is not None:
        rows = [DescribeDelegationTokenOwner(owner.type, owner.name) for owner in owners]
    return ControllerCall(DescribeDelegationTokenRequest(rows), read)


def _described(row: DescribedDelegationToken) -> SecretToken:
    owner = Principal(row.principal_name, row.principal_type)
    requester = _requester(
        row.token_requester_principal_type, row.token_requester_principal_name, owner
    )
    renewers = tuple(Principal(r.principal_name, r.principal_type) for r in row.renewers)
    token = DelegationToken(
        row.token_id,
        owner,
        requester,
        renewers,
        row.issue_timestamp,
        row.max_timestamp,
        row.expiry_timestamp,
    )
    return SecretToken(token, bytes(row.hmac))


def _requester(kind: str, name: str, owner: Principal) -> Principal:
    """Return the requester. Before version 3 it is the owner."""
    return Principal(name, kind) if kind else owner


# The iterations of each credential, by the name of its mechanism.
ScramIterations = Mapping[str, int]


def describe_credentials(
    users: Iterable[str],
) -> Call[dict[str, ScramIterations | KafkaError]]:
    """Build DescribeUserScramCredentials. No users describe all that have a credential."""

    def read(
        response: DescribeUserScramCredentialsResponse,
    ) -> dict[str, ScramIterations | KafkaError]:
        raise_for(response.error_code, response.error_message)
        found: dict[str, ScramIterations | KafkaError] = {}
        for row in response.results:
            error = error_of(row.error_code, row.error_message)
            infos = [info for info in row.credential_infos if info.mechanism in MECHANISMS]
            found[row.user] = error or {
                MECHANISMS[info.mechanism].kafka_name: info.iterations for info in infos
            }
        return found

    rows = [UserName(user) for user in users]
    return Call(DescribeUserScramCredentialsRequest(rows or None), read)


def alter_credentials(
    deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> ControllerCall[dict[str, KafkaError | None]]:
    """Build AlterUserScramCredentials. The result has the error of each user, None after a
    success."""

    def read(response: AlterUserScramCredentialsResponse) -> dict[str, KafkaError | None]:
        errors = {row.user: error_of(row.error_code, row.error_message) for row in response.results}
        for error in errors.values():
            if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                raise error  # of the whole request; it is sent to the next controller
        return errors

    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(row.user, row.mechanism) for row in deletions],
        [ScramCredentialUpsertion(*row) for row in upsertions],
    )
    return ControllerCall(request, read)
