"""What the routes of the page have in common, also the error that responds with one sentence."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.client.schema_registry import LOGIN_VARIABLE, RegistryAddress
from minikafka.kernel.ports import World
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.follow import Follow
from minikafka.page.dashboard.guards import Guard


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How the page was started. ``bootstrap`` is empty if a recording is shown."""

    bootstrap: str = ""
    command_config: str | None = None  # a .properties file, for the command lines of acts
    read_only: bool = False
    supervisor_fd: int | None = None
    recording: str | None = None  # a file to show instead of a cluster
    record: str | None = None  # a file to write all messages to
    registry: str | None = None  # address of a schema registry, maybe with a login

    @property
    def registry_address(self) -> RegistryAddress | None:
        """Return the address of the registry with its login."""
        if self.registry is None:
            return None
        return RegistryAddress.parse(self.registry, os.environ.get(LOGIN_VARIABLE))


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """The cluster that is shown. ``admin`` is started, and shared by the routes."""

    client: ClientConfig
    admin: Admin
    follow: Follow


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
    def registry(self) -> RegistryAddress | None:
        return self.options.registry_address

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


class HttpError(Exception):
    """Becomes a response with ``status`` and the JSON ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
