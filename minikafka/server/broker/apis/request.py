"""A request as its handler gets it, and the two kinds of handlers.

An ``ImmediateHandler`` replies before it returns, parks the request or returns a coroutine that
serves it in slices. A ``TaskHandler`` runs as a task.

The receive buffer of a connection is reused for the next read. So a handler that parks a request,
or pauses, keeps no bytes of it, or copies them before. Records of a Produce stay one memoryview
from the socket to the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Protocol, TypeAlias

from minikafka.kernel.errors import KafkaError
from minikafka.kernel.principals import ANONYMOUS, Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.layout import top_fields
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.server.broker.quotas import RequestThrottle, TakePermits, take_freely


class RequestContext:
    """The header of a request, and its connection.

    ``listener`` is the name of the listener that accepted the connection, ``principal`` is who has
    logged in. ``connection`` identifies the connection by equality; None stands for a connection
    without other requests. ``contain`` is called with an unexpected exception in the completion of
    the parked request, and closes the connection; None where such an exception must end the node
    (``Api.parks_reads``).
    ``throttle`` measures the request; None if the client has no quota."""

    __slots__ = (
        "client_host",
        "connection",
        "contain",
        "header",
        "listener",
        "principal",
        "throttle",
    )

    def __init__(
        self,
        header: RequestHeader,
        listener: str,
        client_host: str,
        connection: Hashable = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.header = header
        self.principal = principal
        self.listener = listener
        self.client_host = client_host
        self.connection = connection
        self.contain: Callable[[Exception], None] | None = None
        self.throttle: RequestThrottle | None = None

    def mutations(self, strict_since: int) -> TakePermits:
        """Return the function that takes permits for partitions that the request creates or
        deletes. It raises KafkaError THROTTLING_QUOTA_EXCEEDED, from version ``strict_since`` on:
        older clients do not know the error."""
        if self.throttle is None:
            return take_freely
        return self.throttle.mutations(strict=self.version >= strict_since)

    def auto_creation(self) -> TakePermits:
        """Return the function that takes permits for partitions of topics that are created because
        the request names them."""
        return take_freely if self.throttle is None else self.throttle.auto_creation()

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""


class RequestReply(Protocol):
    """Takes the reply to one request; see ``PendingReply``."""

    def __call__(self, response: Any) -> None: ...

    def refuse(self, reason: str, **facts: object) -> None: ...

    def abandon(self, reason: str, **facts: object) -> None: ...

    def mute(self, delay_ms: int) -> None: ...


class Seam(Protocol):
    """May serve a request in another way (``minikafka.server.faults``)."""

    def begin(
        self,
        api_key: ApiKey,
        context: RequestContext,
        request: Any,
        reply: RequestReply,
        serve: Callable[[Any, RequestReply], Awaitable[None]],
    ) -> Coroutine[Any, Any, None] | None:
        """Return what serves the request instead, as a task, by ``serve`` or not. None if it is
        served as usual."""
        ...


def error_response(api_key: ApiKey, version: int, error: KafkaError) -> Any:
    """Return the response that is nothing but ``error``; None if it has no field for an error at
    its top level in this version."""
    response: Any = RESPONSES[api_key]()
    fields = top_fields(type(response), version)
    if "error_code" not in fields:
        return None
    response.error_code = error.code
    if "error_message" in fields:
        response.error_message = error.message
    return response


# Called exactly once per request. ``None`` sends nothing (Produce with acks=0). A KafkaError is
# handled as if the handler had raised it.
Reply: TypeAlias = Callable[[Any], None]


class UnreadableRequest(Exception):
    """Raised by a handler for a decoded value that Kafka's decoder refuses. The connection is
    closed, as after a malformed request."""


# Calls ``reply`` before it returns, or parks the request and calls it later. For a large request it
# may, before it changes any state, return a coroutine that serves it and calls ``reply`` as a task.
# A handler copies every memoryview of a request that it does not serve at once before it returns:
# they lie in the receive buffer.
ImmediateHandler: TypeAlias = Callable[
    [RequestContext, Any, Reply], Coroutine[Any, Any, None] | None
]
# Awaits something (ZooKeeper, another broker) and runs as a task of the node.
TaskHandler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Any]]
Handler: TypeAlias = ImmediateHandler | TaskHandler
