"""Envelope (key 58): a request that a broker forwards to the controller (KIP-590)."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import ORDINARY, Bytes, Int16, Message, request, response


@dataclass(slots=True)
class EnvelopeRequest(Message):
    """The forwarded request with its header, and the client that had sent it."""

    SPEC = request(ApiKey.ENVELOPE, WHOLE, max_elements=ORDINARY)

    request_data: Bytes = b""
    request_principal: Bytes | None = b""
    client_host_address: Bytes = b""


@dataclass(slots=True)
class EnvelopeResponse(Message):
    """The response to the forwarded request, or the error of the envelope."""

    SPEC = response(ApiKey.ENVELOPE)

    response_data: Bytes | None = None
    error_code: Int16 = 0
