"""Serves the page of one cluster, of several, or of a recording, until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.kernel.listeners import is_loopback
from minikafka.kernel.ports import World
from minikafka.page.dashboard.access.audit import ActLog, opened_audit
from minikafka.page.dashboard.access.doors import Sessions
from minikafka.page.dashboard.app import clusters_app, page_app
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.context import PageContext, PageOptions, ShownCluster
from minikafka.page.dashboard.follow import Follow
from minikafka.page.dashboard.guards import TOKEN_BYTES, Guard
from minikafka.page.dashboard.history.sampler import Sampler
from minikafka.page.dashboard.messages import Hello
from minikafka.page.dashboard.recording import opened as opened_recording
from minikafka.page.dashboard.recording import record
from minikafka.page.dashboard.stage import Stage
from minikafka.world.real.asgi_server import AsgiServer

BOOT_BYTES: Final = 4


class PageSubject(NamedTuple):
    """A cluster that is shown. ``client`` is None if it is a recording. ``name`` is empty if it is
    the only one."""

    options: PageOptions
    client: ClientConfig | None
    name: str = ""


async def serve_page(
    world: World,
    shown: Sequence[PageSubject],
    listening: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve until ``stopped`` is set. ``ready`` is called with the address, which has the token.
    Who may do what is in the options of the first cluster. Raises OSError if the file to record to,
    or that of a history, cannot be opened, ConfigError if the latter is no history."""
    options = shown[0].options
    guard = guard_of(world, shown, listening)
    async with AsyncExitStack() as stack:
        audit = ActLog(world.clock, stack.enter_context(opened_audit(options.audit_log)))
        names = [one.name for one in shown]
        opened = [await _opened(stack, world, one, names) for one in shown]
        writes = {one.name: _recorder(stack, one.options.record) for one in shown}
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        running: list[asyncio.Task[None]] = []
        contexts = {
            one.name: PageContext(
                world, one.options, guard, broadcast, tasks, running, stopped.set, audit, cluster
            )
            for one, (cluster, broadcast) in zip(shown, opened, strict=True)
        }
        running += [
            tasks.create_task(work)
            for name, context in contexts.items()
            for work in _work(context, writes[name])
        ]
        app = clusters_app(contexts) if len(shown) > 1 else page_app(contexts[names[0]])
        server = AsgiServer(app)
        serving = tasks.create_task(server.serve([listening]), name="serve")
        ready(guard.address)
        await stopped.wait()
        for context in contexts.values():
            context.broadcast.close()
        for task in list(running):
            task.cancel()
        server.should_exit = True
        await serving


def guard_of(world: World, shown: Sequence[PageSubject], listening: socket.socket) -> Guard:
    """Return who may do what. Reading needs a token, too, if the page has a login to a cluster, to
    a registry or to Kafka Connect."""
    host, port = listening.getsockname()[:2]
    options = shown[0].options
    doors = options.doors
    token = "" if doors.ways else world.entropy.random_bytes(TOKEN_BYTES).hex()
    clients = [one.client for one in shown if one.client is not None]
    has_login = any(client.security_protocol != "PLAINTEXT" for client in clients)
    servers = [
        address
        for one in shown
        for address in (one.options.registry_address, one.options.connect_address)
    ]
    has_login |= any(each is not None and each.login is not None for each in servers)
    private = not is_loopback(host) or has_login or bool(doors.ways)
    sessions = Sessions(world.clock.monotonic_ms, world.entropy.random_bytes)
    return Guard(host, port, token, options.read_only, private, doors, sessions)


async def _opened(
    stack: AsyncExitStack, world: World, one: PageSubject, names: Sequence[str]
) -> tuple[ShownCluster | None, Broadcast]:
    """Raises OSError or ConfigError for the file of the history."""
    options, client = one.options, one.client
    hello = Hello(
        bootstrap=options.bootstrap,
        live=client is not None,
        read_only=options.read_only,
        name=one.name,
        clusters=tuple(names) if one.name else (),
    )
    boot = world.entropy.random_bytes(BOOT_BYTES).hex()
    broadcast = Broadcast(world.clock, Stage(boot, hello, world.clock.wall_ms()))
    if client is None:
        broadcast.set_ready(True)
        return None, broadcast
    admin = await stack.enter_async_context(Admin(world, client))
    follow = Follow(world, admin, broadcast)
    sampler = Sampler(
        world, follow.reader, follow.network_of, lambda: broadcast.readers > 0, options.history
    )
    return ShownCluster(client, admin, follow, sampler), broadcast


def _recorder(stack: AsyncExitStack, file: str | None) -> Callable[[str], object] | None:
    """Raises OSError if the file cannot be opened."""
    return None if file is None else stack.enter_context(opened_recording(file))


def _work(
    context: PageContext, write: Callable[[str], object] | None
) -> list[Coroutine[None, None, None]]:
    """Return what runs for a cluster all the time. ``write`` gets a recording."""
    cluster = context.cluster
    work = [] if cluster is None else [cluster.follow.run(), cluster.sampler.run()]
    if write is not None:
        work.append(record(context.broadcast, write))
    return work
