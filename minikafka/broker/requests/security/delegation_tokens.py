"""Create-, Renew-, Expire- and DescribeDelegationToken (keys 38 to 41) on PLAINTEXT listeners.

A token may only be requested over an authenticated connection. Kafka checks this first, so that the
answer is the same whether or not the cluster has a token secret.
"""

from __future__ import annotations

from minikafka.broker.requests.context import Reply, RequestContext
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

ANONYMOUS = ("User", "ANONYMOUS")  # the principal of every client of a PLAINTEXT listener
NO_TIMESTAMP = -1
FIRST_VERSION_WITH_REQUESTER = 3


def refuse_creation(
    context: RequestContext, request: CreateDelegationTokenRequest, reply: Reply
) -> None:
    """The response names the owner, who is the requester unless the request names another."""
    error, owner = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ANONYMOUS
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            error = ErrorCode.UNKNOWN_SERVER_ERROR  # a principal needs a type
        else:
            owner = (request.owner_principal_type, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error,
        *owner,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    if context.version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = ANONYMOUS[0]
        response.token_requester_principal_name = ANONYMOUS[1]
    reply(response)


def refuse_renewal(
    context: RequestContext, request: RenewDelegationTokenRequest, reply: Reply
) -> None:
    reply(
        RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIMESTAMP)
    )


def refuse_expiry(
    context: RequestContext, request: ExpireDelegationTokenRequest, reply: Reply
) -> None:
    reply(
        ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIMESTAMP)
    )


def refuse_description(
    context: RequestContext, request: DescribeDelegationTokenRequest, reply: Reply
) -> None:
    reply(DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
