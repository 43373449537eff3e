"""Security APIs that a broker without an authorizer, or outside of a login, refuses.

- DescribeAcls, CreateAcls, DeleteAcls (keys 29 to 31), without an authorizer.
- SaslHandshake and SaslAuthenticate (keys 17 and 36). During a login they never reach a handler.
  Here they come after it, or over a listener without SASL. The connection stays open.
"""

from __future__ import annotations

from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.broker.requests.security.acls import require_known_codes
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
