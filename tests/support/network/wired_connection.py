"""One server connection whose transport only notes what the connection does with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from minikafka.server.listeners.listener_resources import ListenerResources, ServerConfig
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.server_connection import FrameHandler, ServerConnection
from tests.support.network.network_lab import framed
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog


class WiredConnection:
    """The connection, its transport and its server at once."""

    def __init__(
        self,
        on_frame: FrameHandler,
        config: ServerConfig | None = None,
        budget: MemoryBudget | None = None,
        holding: bool = False,
        opens: bool = True,
    ) -> None:
        self.writes: list[bytes] = []
        self.is_read = True
        self.clock, self.log = ManualClock(), RecordingLog()
        self.resources = ListenerResources(
            "PLAINTEXT",
            config or ServerConfig(),
            self.clock,
            cast(Any, self.log),
            budget or MemoryBudget(),
        )
        self.resources.holding = holding
        self.connection = ServerConnection(1, self, self.resources, on_frame)
        if opens:
            self.open()

    def open(self) -> None:
        self.connection.connection_made(cast(Any, self))

    def receive(self, *bodies: bytes) -> None:
        """Let the connection receive frames in one read."""
        self.receive_bytes(b"".join(map(framed, bodies)))

    def receive_bytes(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))

    # -- the server

    def opened(self, connection: ServerConnection) -> None: ...

    def lost(self, connection: ServerConnection) -> None: ...

    # -- the transport

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.writes.append(b"".join(parts))

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def close(self) -> None: ...

    def abort(self) -> None: ...
