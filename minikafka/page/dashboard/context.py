"""What the routes of the page have in common, also the error that responds with one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.client.rest import RestAddress
from minikafka.kernel.ports import World
from minikafka.page.dashboard.access.audit import ActLog
from minikafka.page.dashboard.access.doors import NO_DOORS, Doors, PageUser
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.follow import Follow
from minikafka.page.dashboard.guards import Guard
from minikafka.page.dashboard.history.sampler import Sampler


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How the page was started. ``bootstrap`` is empty if a recording is shown."""

    bootstrap: str = ""
    command_config: str | None = None  # a .properties file, for the command lines of acts
    read_only: bool = False
    supervisor_fd: int | None = None
    recording: str | None = None  # a file to show instead of a cluster
    record: str | None = None  # a file to write all messages to
    doors: Doors = NO_DOORS  # who may come in
    audit_log: str | None = None  # a file to append acts to
    registry: str | None = None  # the address of a schema registry
    registry_login: tuple[str, str] | None = None  # name and password, if it wants them
    connect: str | None = None  # the address of a worker of Kafka Connect
    connect_login: tuple[str, str] | None = None  # name and password, if it wants them
    history: str | None = None  # a file for the rates, lag and sizes of the last day

    @property
    def registry_address(self) -> RestAddress | None:
        """Return the address of the registry with its login."""
        return _address(self.registry, self.registry_login)

    @property
    def connect_address(self) -> RestAddress | None:
        """Return the address of Kafka Connect with its login."""
        return _address(self.connect, self.connect_login)


def _address(url: str | None, login: tuple[str, str] | None) -> RestAddress | None:
    if url is None:
        return None
    return RestAddress.parse(url, None if login is None else ":".join(login))


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """The cluster that is shown. ``admin`` is started, and shared by the routes; ``sampler`` has
    rates, lag and sizes."""

    client: ClientConfig
    admin: Admin
    follow: Follow
    sampler: Sampler


@dataclass(frozen=True, slots=True)
class PageContext:
    """``tasks`` lives as long as the server. ``cluster`` is None if a recording is shown."""

    world: World
    options: PageOptions
    guard: Guard
    broadcast: Broadcast
    tasks: asyncio.TaskGroup
    running: list[asyncio.Task[None]]  # cancelled when the server stops
    stop: Callable[[], None]  # ends the server
    audit: ActLog
    cluster: ShownCluster | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` until it ends or the server stops."""
        task = self.tasks.create_task(work)
        self.running.append(task)
        task.add_done_callback(self.running.remove)

    @property
    def bootstrap(self) -> str:
        return self.options.bootstrap

    @property
    def command_config(self) -> str | None:
        return self.options.command_config

    @property
    def read_only(self) -> bool:
        return self.options.read_only

    @property
    def registry(self) -> RestAddress | None:
        return self.options.registry_address

    @property
    def connect(self) -> RestAddress | None:
        return self.options.connect_address

    @property
    def token(self) -> str:
        return self.guard.token

    @property
    def supervisor_fd(self) -> int | None:
        return self.options.supervisor_fd

    @property
    def client(self) -> ClientConfig | None:
        return None if self.cluster is None else self.cluster.client

    @property
    def admin(self) -> Admin | None:
        return None if self.cluster is None else self.cluster.admin

    def watch(self, topic: str) -> None:
        """Show this topic for a while, whatever its name."""
        if self.cluster is not None:
            self.cluster.follow.watch(topic)


IDENTITY: Final = "minikafka.identity"  # the key of a request's scope that has its PageUser


def identity_of(request: Request) -> PageUser | None:
    """Return who sends a request. None is somebody who may only read, if that."""
    found: PageUser | None = request.scope.get(IDENTITY)
    return found


def peer_of(request: Request) -> str | None:
    return None if request.client is None else request.client.host


class HttpError(Exception):
    """Becomes a response with ``status`` and the JSON ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
