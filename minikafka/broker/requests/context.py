"""The context of a request, and the two types of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeAlias

from minikafka.protocol.headers import RequestHeader


class RequestContext:
    """The header of a request, and its connection.

    ``listener`` is the name of the listener that accepted the connection. ``connection`` identifies
    the connection by equality; None stands for a connection without other requests. ``contain`` is
    called with an unexpected exception in the completion of the parked request, and closes the
    connection; None where such an exception must end the node (``Route.parks_reads``)."""

    __slots__ = ("client_host", "connection", "contain", "header", "listener")

    def __init__(
        self,
        header: RequestHeader,
        listener: str,
        client_host: str,
        connection: Hashable = None,
    ) -> None:
        self.header = header
        self.listener = listener
        self.client_host = client_host
        self.connection = connection
        self.contain: Callable[[Exception], None] | None = None

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""


# Called exactly once per request. ``None`` sends nothing (Produce with acks=0). A KafkaError is
# handled as if the handler had raised it.
Reply: TypeAlias = Callable[[Any], None]


class UnreadableRequest(Exception):
    """Raised by a handler for a decoded value that Kafka's decoder refuses. The connection is
    closed, as after a malformed request."""


# Replies before it returns, or parks the request and calls ``reply`` later.
ImmediateHandler: TypeAlias = Callable[[RequestContext, Any, Reply], None]
# Awaits something (ZooKeeper, another broker) and runs as a task of the node.
TaskHandler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Any]]
