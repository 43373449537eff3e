"""SaslHandshake and SaslAuthenticate (keys 17 and 36), which are refused after the login.

During a login they never reach a handler. Here they come after it, or over a listener without
SASL. The connection stays open.
"""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import OPEN
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota


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


SASL_HANDSHAKE = Api(
    key=ApiKey.SASL_HANDSHAKE,
    handler=lambda broker: refuse_sasl_handshake,
    task=False,
    authorization=OPEN,
    quota=Quota.REQUESTS,
    changes_state=False,
)

SASL_AUTHENTICATE = Api(
    key=ApiKey.SASL_AUTHENTICATE,
    handler=lambda broker: refuse_sasl_authentication,
    task=False,
    authorization=OPEN,
    quota=Quota.REQUESTS,
    changes_state=False,
)
