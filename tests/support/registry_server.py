"""A registry in another thread of the test's process, as the verb runs it."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from minikafka.client.config import ClientConfig
from minikafka.registry.app import RegistryOptions, serve_registry
from minikafka.world.real.asgi_server import bind
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world

HOST = "127.0.0.1"
TIMEOUT_S = 60


class RegistryServer(NamedTuple):
    url: str

    def send(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send a request; return the status and the JSON of the response."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@contextmanager
def registry_server(bootstrap: str, **options: Any) -> Iterator[RegistryServer]:
    """Serve a registry of this cluster until the block ends. A stopped one has freed its port."""
    addresses: list[str] = []
    ready, stopped = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    failures: list[BaseException] = []

    def note(address: str) -> None:
        addresses.append(address)
        ready.set()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        config = ClientConfig(bootstrap_servers=bootstrap, client_id="registry")
        listening = bind(HOST, 0, exact=True)
        try:
            await serve_registry(
                real_world(), RegistryOptions(**options), config, listening, stopped, note
            )
        except BaseException as error:
            failures.append(error)
            ready.set()
            raise

    thread = threading.Thread(target=lambda: run(serve()), name="registry", daemon=True)
    thread.start()
    assert ready.wait(TIMEOUT_S)
    if failures:
        raise failures[0]
    try:
        yield RegistryServer(addresses[0])
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
