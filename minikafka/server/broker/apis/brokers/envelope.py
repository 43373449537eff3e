"""Envelope (key 58): a client's request that another broker forwards to the controller (KIP-590).

Kafka's ``EnvelopeUtils``. Only brokers may send it: whoever may can pass for any principal.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from minikafka.core.forwarding import decode_address, decode_principal
from minikafka.core.security.acls import AclOperation
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import DecodeError, FieldOverflow, decode, element_count
from minikafka.protocol.frames import RequestHeader, decode_request_header, encode_response
from minikafka.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from minikafka.protocol.messages.registry import REQUESTS, version_range
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.forwarding import (
    ON_LOOP_BYTES,
    ON_LOOP_ELEMENTS,
    SIZE_BYTES,
    by_size,
)
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import (
    Handler,
    Reply,
    RequestContext,
    UnreadableRequest,
    error_response,
)
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.table import ApiTable
from minikafka.server.broker.quotas import Quota


class EnvelopeHandler:
    """Serves Envelope (an ``ImmediateHandler``).

    The request inside is served as one of the client that the envelope names: its principal is
    authorized, and its quota of mutations applies.

    An envelope of a sender who may not act as a broker closes the connection, as Kafka with
    ZooKeeper does for every envelope. So does one that arrives by another listener than that for
    brokers."""

    def __init__(self, broker: Services) -> None:
        self._broker = broker
        self._table = ApiTable()
        self._api_keys = {int(api_key): api_key for api_key in self._table}
        self._handlers: dict[ApiKey, tuple[Api, Any]] = {}  # of the APIs that were forwarded

    def __call__(
        self, context: RequestContext, request: EnvelopeRequest, reply: Reply
    ) -> Coroutine[Any, Any, None]:
        if context.listener != self._broker.inter_broker_listener:
            raise UnreadableRequest("an envelope through a listener that is not for brokers")
        authorization = self._broker.authorization
        if authorization is not None and not authorization.on_cluster(
            context, AclOperation.CLUSTER_ACTION, log_if_denied=False
        ):
            raise UnreadableRequest(f"{context.principal} may not send envelopes")
        return self._serve(context, request, reply)

    async def _serve(self, context: RequestContext, request: EnvelopeRequest, reply: Reply) -> None:
        if not self._broker.is_controller():
            reply(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        try:
            reply(EnvelopeResponse(await self._forwarded(context, request)))
        except KafkaError as error:
            reply(EnvelopeResponse(error_code=error.code))

    async def _forwarded(self, context: RequestContext, envelope: EnvelopeRequest) -> bytes:
        """Serve the request in an envelope. Return its encoded response. Raises KafkaError."""
        header, position = _header(envelope)
        api, handler = self._find(header)
        inner = RequestContext(
            header, context.listener, _address(envelope), None, _principal(envelope)
        )
        workers, version = self._broker.world.workers, header.api_version
        read = partial(decode, REQUESTS[api.key], version, envelope.request_data, position)
        try:
            request: Any = await by_size(workers, len(envelope.request_data) > ON_LOOP_BYTES, read)
        except (DecodeError, MemoryError, RecursionError) as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION) from error
        response = await self._response(api, handler, inner, request, len(envelope.request_data))
        write = partial(encode_response, header.correlation_id, response, version)
        try:
            frame = await by_size(workers, element_count(response) > ON_LOOP_ELEMENTS, write)
        except FieldOverflow as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return frame[SIZE_BYTES:]

    async def _response(
        self, api: Api, handler: Any, context: RequestContext, request: Any, size: int
    ) -> Any:
        quotas = self._broker.quotas
        throttle = None
        if quotas.enabled:
            throttle = context.throttle = quotas.throttle_of(
                api.quota, context.principal.name, context.client_id, size
            )
        if throttle is not None:
            throttle.pause()  # the forwarding broker measures the time of the request
        try:
            response = await handler(context, request)
        except KafkaError as error:
            response = error_response(api.key, context.version, error)
            if response is None:
                raise
        if throttle is not None:
            throttle.finish(response)
        return response

    def _find(self, header: RequestHeader) -> tuple[Api, Any]:
        """Return the row of a forwarded API, and its handler behind its guard."""
        api_key = self._api_keys.get(header.api_key)
        first, last = (0, -1) if api_key is None else version_range(api_key)
        if api_key is None or not first <= header.api_version <= last:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        found = self._handlers.get(api_key)
        if found is None:
            api = self._table[api_key]
            if not api.to_controller:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            handler: Handler = api.handler(self._broker)
            if self._broker.authorization is not None:
                handler = api.authorization(self._broker, handler, api.task)
            found = self._handlers[api_key] = (api, handler)
        return found


def _header(envelope: EnvelopeRequest) -> tuple[RequestHeader, int]:
    try:
        return decode_request_header(memoryview(envelope.request_data))
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION) from error


def _principal(envelope: EnvelopeRequest) -> Principal:
    try:
        return decode_principal(envelope.request_principal)
    except DecodeError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from error


def _address(envelope: EnvelopeRequest) -> str:
    try:
        return decode_address(envelope.client_host_address)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from error


ENVELOPE = Api(
    key=ApiKey.ENVELOPE,
    handler=EnvelopeHandler,
    task=False,
    authorization=BY_HANDLER,
    quota=Quota.EXEMPT,
    changes_state=False,
    senders=Senders.BROKERS,
)
