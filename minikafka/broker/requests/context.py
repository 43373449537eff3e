"""What a request handler gets besides the request, and the two shapes a handler may have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeAlias

from minikafka.protocol.headers import RequestHeader


class RequestContext:
    """Who asks, and how. ``listener`` is the name of the listener the connection came in by.
    ``connection`` identifies the connection by equality; None stands for one of its own."""

    __slots__ = ("client_host", "connection", "header", "listener")

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
    """The request was decoded but has a value that no reader accepts: its connection is closed, as
    after a malformed request."""


# Replies before it returns, or parks the request and calls ``reply`` later.
ImmediateHandler: TypeAlias = Callable[[RequestContext, Any, Reply], None]
# Awaits something (ZooKeeper, another broker) and runs as a task of the node.
TaskHandler: TypeAlias = Callable[[RequestContext, Any], Awaitable[Any]]
