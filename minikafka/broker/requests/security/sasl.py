"""SaslHandshake and SaslAuthenticate (keys 17 and 36) on a connection that is not authenticating.

On a SASL listener both belong to the connection's authentication and never reach a handler. Here
they arrive late, or on a PLAINTEXT listener. The connection goes on.
"""

from __future__ import annotations

from minikafka.broker.requests.context import Reply, RequestContext
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def refuse_handshake(context: RequestContext, request: SaslHandshakeRequest, reply: Reply) -> None:
    reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def refuse_authentication(
    context: RequestContext, request: SaslAuthenticateRequest, reply: Reply
) -> None:
    reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
