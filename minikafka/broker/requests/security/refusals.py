"""Security APIs that a broker without authorizer, SASL listener and token secret refuses.

- DescribeAcls, CreateAcls, DeleteAcls (keys 29 to 31), without an authorizer.
- Create-, Renew-, Expire- and DescribeDelegationToken (keys 38 to 41). A token may only be
  requested over an authenticated connection, and Kafka checks this first. Then the response says
  that the cluster has no token secret.
- SaslHandshake and SaslAuthenticate (keys 17 and 36). During a login they never reach a handler.
  Here they come after it, or over a listener without SASL. The connection stays open.
"""

from __future__ import annotations

from minikafka.broker.requests.apis import Reply, RequestContext
from minikafka.broker.requests.security.acls import require_known_codes
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.principals import ANONYMOUS
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
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

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


NO_TIMESTAMP = -1
FIRST_VERSION_WITH_REQUESTER = 3


def _token_refusal(context: RequestContext) -> ErrorCode:
    """Return why there are no delegation tokens for this client."""
    if context.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def refuse_token_creation(
    context: RequestContext, request: CreateDelegationTokenRequest, reply: Reply
) -> None:
    """Refuse CreateDelegationToken. The response names the owner in the request, or else the
    requester."""
    requester = (context.principal.type, context.principal.name)
    error, owner = _token_refusal(context), requester
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
        response.token_requester_principal_type = requester[0]
        response.token_requester_principal_name = requester[1]
    reply(response)


def refuse_token_renewal(
    context: RequestContext, request: RenewDelegationTokenRequest, reply: Reply
) -> None:
    reply(RenewDelegationTokenResponse(_token_refusal(context), NO_TIMESTAMP))


def refuse_token_expiry(
    context: RequestContext, request: ExpireDelegationTokenRequest, reply: Reply
) -> None:
    reply(ExpireDelegationTokenResponse(_token_refusal(context), NO_TIMESTAMP))


def refuse_token_description(
    context: RequestContext, request: DescribeDelegationTokenRequest, reply: Reply
) -> None:
    reply(DescribeDelegationTokenResponse(_token_refusal(context)))


def refuse_sasl_handshake(
    context: RequestContext, request: SaslHandshakeRequest, reply: Reply
) -> None:
    reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def refuse_sasl_authentication(
    context: RequestContext, request: SaslAuthenticateRequest, reply: Reply
) -> None:
    reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
