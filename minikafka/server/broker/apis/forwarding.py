"""Forwards requests for the controller to it, so that clients may send them to any broker.

In Kafka with ZooKeeper clients must find the controller: other brokers respond NOT_CONTROLLER.
Brokers of KRaft forward instead (KIP-590), and clients of Kafka 4 rely on it. Here brokers forward
likewise, unless the controller is of another kind or no controller is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from minikafka.core import forwarding as envelopes
from minikafka.core.backoff import ExponentialBackoff
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Workers, World
from minikafka.protocol.codec import DecodeError, element_count
from minikafka.protocol.frames import decode_response, encode_request
from minikafka.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from minikafka.protocol.messages.registry import response_class
from minikafka.protocol.schema import Message
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.node_to_controller import NodeToController

SIZE_BYTES: Final = 4  # a forwarded frame is without its size
# As Kafka's ``retryTimeoutMs`` of the channel to the controller.
FORWARDING_TIMEOUT_MS: Final = 60_000
RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 1_000
# What is larger is encoded or decoded by a worker: it takes more than some milliseconds.
ON_LOOP_ELEMENTS: Final = 4_000
ON_LOOP_BYTES: Final = 128 * 1024
NOT_FORWARDED: Final = "The request could not be forwarded to the controller."

T = TypeVar("T")


class Forwarding:
    """Sends requests of clients to the controller, in envelopes.

    The controller serves the requests of one connection one after the other, and some wait there
    for seconds. So there are several connections (``links``), apart from those for the broker's own
    requests, and each request takes the one with the least to do."""

    def __init__(
        self,
        world: World,
        links: Sequence[NodeToController],
        is_controller: Callable[[], bool],
        log: EventLog | None = None,
    ) -> None:
        self._clock = world.clock
        self._entropy = world.entropy
        self._workers = world.workers
        self._links = links
        self._is_controller = is_controller
        self._log = log or event_log("node-to-controller")
        self._backoff = ExponentialBackoff(RETRY_MS, RETRY_MAX_MS)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        for link in self._links:
            link.start(tasks)

    async def close(self) -> None:
        """Close the connections. Requests without a response are not forwarded."""
        for link in self._links:
            await link.close()

    def before(self, handler: Any) -> ForwardingHandler:
        """Return a ``TaskHandler`` that forwards requests. ``handler``, a ``TaskHandler`` as well,
        serves those that are not forwarded."""
        return ForwardingHandler(self, self._is_controller, handler)

    async def response(self, context: RequestContext, request: Message) -> Any:
        """Return the controller's response to a request; None if it takes no envelopes, or is not
        found within ``FORWARDING_TIMEOUT_MS``, or if this broker is the controller meanwhile.

        Like Kafka, send the request again if its response is lost, perhaps to another controller:
        a topic may then exist already. Raises KafkaError if the controller refuses the envelope."""
        deadline_ms = self._clock.monotonic_ms() + FORWARDING_TIMEOUT_MS
        envelope = await self._enclosed(context, request)
        attempts = 0
        while not self._is_controller():
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return None
            link = min(self._links, key=lambda link: link.waiting)
            try:
                response: EnvelopeResponse | None = await link.request_if(
                    envelopes.takes_envelopes, envelope, 0, left_ms
                )
            except (ConnectionError, TimeoutError):
                return None
            if response is None:
                return None
            if response.error_code != ErrorCode.NOT_CONTROLLER:
                return await self._opened(context, request, response)
            await self._clock.sleep(self._backoff.delay_ms(attempts, self._entropy.random()))
            attempts += 1
        return None

    async def _enclosed(self, context: RequestContext, request: Message) -> EnvelopeRequest:
        encode = partial(encode_request, context.header, request)
        frame = await by_size(self._workers, element_count(request) > ON_LOOP_ELEMENTS, encode)
        return EnvelopeRequest(
            frame[SIZE_BYTES:],
            envelopes.encode_principal(context.principal),
            envelopes.encode_address(context.client_host),
        )

    async def _opened(
        self, context: RequestContext, request: Message, response: EnvelopeResponse
    ) -> Any:
        """Return the response in the envelope. An error of the envelope is none that the client
        expects: Kafka responds UNKNOWN_SERVER_ERROR as well."""
        data = response.response_data
        if response.error_code or data is None:
            error_name = ErrorCode(response.error_code).name
            self._log.warning("envelope_refused", request=type(request).__name__, error=error_name)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        decode = partial(decode_response, response_class(request), context.version, data)
        try:
            _, message = await by_size(self._workers, len(data) > ON_LOOP_BYTES, decode)
        except DecodeError as error:
            self._log.warning("forwarded_response_malformed", error=str(error))
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return message


class ForwardingHandler:
    """A ``TaskHandler`` that forwards requests unless this broker is the controller.

    If the controller throttles the client, this broker does, too. A request that is not forwarded
    is served by the handler, whose response is NOT_CONTROLLER as in Kafka with ZooKeeper."""

    __slots__ = ("_forwarding", "_handler", "_is_controller")

    def __init__(
        self,
        forwarding: Forwarding,
        is_controller: Callable[[], bool],
        handler: Callable[[RequestContext, Any], Awaitable[Any]],
    ) -> None:
        self._forwarding = forwarding
        self._is_controller = is_controller
        self._handler = handler

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        if self._is_controller():
            return await self._handler(context, request)
        response = await self._forwarding.response(context, request)
        if response is None:
            response = await self._handler(context, request)
            envelopes.explain_not_controller(response, NOT_FORWARDED)
        elif context.throttle is not None:
            context.throttle.throttled_by_controller(response.throttle_time_ms)
        return response


async def by_size(workers: Workers, is_large: bool, work: Callable[[], T]) -> T:
    """Call ``work``, by a worker if it is large."""
    return await workers.run(work) if is_large else work()
