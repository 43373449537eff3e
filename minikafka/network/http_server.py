"""A small HTTP server for looking in: a table of paths, each answered as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.listeners import is_loopback
from minikafka.kernel.ports import Clock, Listener, Network
from minikafka.network.http_connection import (
    Headers,
    HttpConfig,
    HttpConnection,
    HttpReply,
    HttpRequest,
)

__all__ = ["BadQuery", "HttpConfig", "HttpServer", "Query", "Route"]

# The last value of each parameter, decoded.
Query: TypeAlias = Mapping[str, str]
# Returns what ``json.dumps`` takes. Quick, whatever there is to show: the whole broker waits.
Route: TypeAlias = Callable[[Query], Any]

MAX_PARAMETERS = 20
_HOST = re.compile(r"\[?([^\]]*?)\]?(?::\d*)?")
_HEADERS: Headers = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


class BadQuery(ValueError):
    """A parameter that a route cannot take; the message says why."""


class HttpServer:
    """Serves ``routes``, GET and HEAD only, for as long as it is open.

    Requests must name a loopback host: a web page that has its own name resolve to 127.0.0.1 is
    not to read what is here (DNS rebinding).
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        routes: Mapping[str, Route],
        config: HttpConfig | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._routes = routes
        self._config = config or HttpConfig()
        self._log = log or event_log("http")
        self._listener: Listener | None = None
        self._connections: set[HttpConnection] = set()  # bound: max_connections, and the refused

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError (address in use)."""
        self._listener = await self._network.listen(self._accept, host, port)
        return self._listener.port

    def close(self) -> None:
        """Stop listening and hang up on all, answered or not."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.abort()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # -- for connections

    def opened(self, connection: HttpConnection) -> None:
        full = len(self._connections) >= self._config.max_connections
        self._connections.add(connection)
        if full or self._listener is None:
            self._log.debug("connection_refused", limit=self._config.max_connections)
            connection.abort()

    def lost(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> HttpConnection:
        return HttpConnection(self, self._clock, self._config, self.answer, complaint)

    # -- requests

    def answer(self, request: HttpRequest) -> HttpReply:
        """The reply to a request, whatever it is."""
        if request.host and not names_loopback(request.host):
            return complaint(HTTPStatus.MISDIRECTED_REQUEST, "only for names of the loopback")
        path, _, query = request.target.partition("?")
        route = self._routes.get(path)
        if route is None:
            return reply(HTTPStatus.NOT_FOUND, {"error": "no such path", "paths": [*self._routes]})
        if request.method not in ("GET", "HEAD"):
            return complaint(
                HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only", ("Allow", "GET, HEAD")
            )
        try:
            return reply(HTTPStatus.OK, route(parameters(query)))
        except BadQuery as error:
            return complaint(HTTPStatus.BAD_REQUEST, str(error))


def parameters(query: str) -> dict[str, str]:
    """Raises BadQuery."""
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        raise BadQuery(f"more than {MAX_PARAMETERS} parameters") from None


def names_loopback(host: str) -> bool:
    """A Host header, with or without a port."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match[1])


def complaint(status: int, reason: str, *headers: tuple[str, str]) -> HttpReply:
    return reply(status, {"error": reason}, *headers)


def reply(status: int, value: Any, *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status, json.dumps(value).encode() + b"\n", (*_HEADERS, *headers))
