"""Serves the registry over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import field

from minikafka.client.config import ClientConfig
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import World
from minikafka.registry.app import registry_app
from minikafka.registry.records import TOPIC
from minikafka.registry.service import Registry
from minikafka.registry.state import RegistryState
from minikafka.registry.store import TopicStore
from minikafka.world.real.asgi_server import AsgiServer


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """``users`` are passwords by name; without any, no login is needed."""

    topic: str = TOPIC
    read_only: bool = False
    users: Mapping[str, str] = field(default_factory=dict)


async def serve_registry(
    world: World,
    options: RegistryOptions,
    client: ClientConfig,
    listening: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve until ``stopped`` is set. ``ready`` is called with the address when the topic has been
    read. Raises an ExceptionGroup of KafkaError or ConfigError if it cannot be used."""
    state = RegistryState()
    store = TopicStore(world, client, options.topic, not options.read_only, state.apply)
    registry = Registry(state, store)
    server = AsgiServer(registry_app(registry, options.users))
    loaded = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(store.run(loaded.set), name="follow")
        changing = tasks.create_task(registry.run(), name="change")
        stopping = tasks.create_task(stopped.wait(), name="stop")
        loading = tasks.create_task(loaded.wait(), name="load")
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if loaded.is_set() and not stopped.is_set():
            serving = tasks.create_task(server.serve([listening]), name="serve")
            host, port = listening.getsockname()[:2]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
            await stopping
            server.should_exit = True
            await serving
        for task in (following, changing, loading):
            task.cancel()
