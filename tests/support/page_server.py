"""The real server of the page, in a thread, and the few requests that tests send to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from minikafka.client.config import ClientConfig
from minikafka.page.dashboard.context import PageOptions
from minikafka.page.dashboard.serving import PageSubject, serve_page
from minikafka.world.real.asgi_server import bind
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world

HOST = "127.0.0.1"
TIMEOUT_S = 30


class PageReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class PageServer(NamedTuple):
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def get(self, path: str, **headers: str) -> PageReply:
        return self.send("GET", path, None, headers)

    def post(self, path: str, body: object, **headers: str) -> PageReply:
        return self.send("POST", path, json.dumps(body).encode(), headers)

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> PageReply:
        """Underscores in names of headers stand for dashes."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return PageReply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    @contextmanager
    def stream(self, last_id: str = "") -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        """Open the stream; its events are ids, "" without one, and messages."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/api/stream", headers={"Last-Event-ID": last_id})
            response = connection.getresponse()
            assert response.status == 200
            assert response.headers["X-Accel-Buffering"] == "no"
            yield self._events(response)
        finally:
            connection.close()

    def _events(self, response: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
        number = ""
        while line := response.readline():
            text = line.decode().rstrip("\n")
            if text.startswith("id: "):
                number = text.removeprefix("id: ")
            elif text.startswith("data: "):
                yield number, json.loads(text.removeprefix("data: "))
                number = ""


def page_server(
    client: ClientConfig | None, *, port: int = 0, **options: Any
) -> AbstractContextManager[PageServer]:
    """Serve a page as the verb does, until the block ends."""
    bootstrap = "" if client is None else client.bootstrap_servers
    return served([PageSubject(PageOptions(bootstrap=bootstrap, **options), client)], port)


@contextmanager
def served(shown: Sequence[PageSubject], port: int = 0) -> Iterator[PageServer]:
    """Serve the page of clusters until the block ends."""
    addresses: list[str] = []
    ready, stopped = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def note(address: str) -> None:
        addresses.append(address)
        ready.set()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await serve_page(real_world(), shown, bind(HOST, port, exact=True), stopped, note)

    thread = threading.Thread(target=lambda: run(serve()), name="page", daemon=True)
    thread.start()
    assert ready.wait(TIMEOUT_S)
    parts = urlsplit(addresses[0])
    assert parts.port is not None
    try:
        yield PageServer(parts.port, parts.query.removeprefix("token="))
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
