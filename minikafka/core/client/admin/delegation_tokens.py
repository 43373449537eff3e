"""Calls about delegation tokens: create, renew, expire and describe them.

Any broker serves them, but others know a new token a little later. So all calls go to one broker,
that of the controller.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import field

from minikafka.core.client.calls import ControllerCall, raise_for
from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal
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
