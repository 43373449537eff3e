"""Serves the page of a cluster, or of a recording, over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.kernel.listeners import is_loopback
from minikafka.kernel.ports import World
from minikafka.page.dashboard.app import page_app
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.context import PageContext, PageOptions, ShownCluster
from minikafka.page.dashboard.follow import Follow
from minikafka.page.dashboard.guards import Guard
from minikafka.page.dashboard.messages import Hello
from minikafka.page.dashboard.recording import opened, record
from minikafka.page.dashboard.stage import Stage
from minikafka.world.real.asgi_server import AsgiServer

TOKEN_BYTES: Final = 16
BOOT_BYTES: Final = 4


async def serve_page(
    world: World,
    options: PageOptions,
    client: ClientConfig | None,
    listening: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve until ``stopped`` is set. ``ready`` is called with the address, which has the token.
    ``client`` is None if a recording is shown. Raises OSError if the file to record to cannot be
    opened."""
    host, port = listening.getsockname()[:2]
    token = world.entropy.random_bytes(TOKEN_BYTES).hex()
    hello = Hello(
        bootstrap=options.bootstrap, live=options.recording is None, read_only=options.read_only
    )
    stage = Stage(world.entropy.random_bytes(BOOT_BYTES).hex(), hello, world.clock.wall_ms())
    broadcast = Broadcast(world.clock, stage)
    private = not is_loopback(host) or (
        client is not None and client.security_protocol != "PLAINTEXT"
    )
    guard = Guard(host, port, token, options.read_only, private)
    async with AsyncExitStack() as stack:
        write = None if options.record is None else stack.enter_context(opened(options.record))
        cluster = None
        if client is not None:
            admin = await stack.enter_async_context(Admin(world, client))
            cluster = ShownCluster(client, admin, Follow(world, admin, broadcast))
        else:
            broadcast.set_ready()
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        context = PageContext(world, options, guard, broadcast, tasks, stopped.set, cluster)
        running = [] if cluster is None else [tasks.create_task(cluster.follow.run(), name="run")]
        if write is not None:
            running.append(tasks.create_task(record(broadcast, write), name="record"))
        server = AsgiServer(page_app(context))
        serving = tasks.create_task(server.serve([listening]), name="serve")
        ready(guard.address)
        await stopped.wait()
        broadcast.close()
        for task in running:
            task.cancel()
        server.should_exit = True
        await serving
