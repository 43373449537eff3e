"""A client of the page's HTTP API, as the browser's scripts use it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit


class PageReply(NamedTuple):
    """``body``: JSON if it is, text otherwise."""

    status: int
    body: Any
    headers: Mapping[str, str]


class PageClient:
    """``address`` is that of the ready line, with the token."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self.netloc = parts.netloc
        self.token = parse_qs(parts.query)["token"][0]
        self._where = (parts.hostname, parts.port)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> PageReply:
        """Send exactly these headers, besides Host where none is given."""
        connection = http.client.HTTPConnection(*self._where, timeout=60)
        try:
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text, dict(headers or {}))
            response = connection.getresponse()
            raw = response.read().decode()
            found = json.loads(raw) if "json" in response.headers.get_content_type() else raw
            return PageReply(response.status, found, dict(response.headers))
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        reply = self.request("GET", path, headers={"X-Minikafka-Token": self.token})
        assert reply.status == 200, reply
        return reply.body

    def post(self, path: str, body: Any, **headers: str) -> PageReply:
        """POST as the page does; ``headers`` replace or add some, with _ for -."""
        own = {
            "Content-Type": "application/json",
            "Cookie": f"minikafka_token_{self._where[1]}={self.token}",
            "Origin": f"http://{self.netloc}",
        }
        others = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, body, {**own, **others})

    def act(self, name: str, **arguments: Any) -> Any:
        """Do an act and return its result."""
        reply = self.post(f"/api/do/{name}", {"arguments": arguments})
        assert reply.status == 200, reply
        return reply.body
