"""What the connections of one listener share: its limits, memory, clock and log."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.protocol.frames import FrameReader
from minikafka.server.listeners.connected_clients import ConnectedClients
from minikafka.server.listeners.large_writes import LargeWrites
from minikafka.server.listeners.memory_budget import FrameMemory, MemoryBudget


@dataclass(frozen=True)
class ServerConfig:
    """Limits of a listener, under Kafka's key names where Kafka has the key. The last four fields
    bound the memory that one connection can occupy."""

    socket_request_max_bytes: int = 100 * 1024 * 1024
    connections_max_idle_ms: int = 10 * 60 * 1000  # -1: never
    queued_max_requests: int = 500  # of one connection, unanswered
    queued_max_bytes: int = 100 * 1024 * 1024  # unanswered requests, and replies queued behind them
    write_high_water_bytes: int = 1024 * 1024
    write_low_water_bytes: int = 256 * 1024
    write_max_bytes: int = 512 * 1024 * 1024  # bytes the peer has not taken; above: disconnect


class ListenerResources:
    """The limits, the memory, the clock and the log of a listener's connections."""

    def __init__(
        self, listener: str, config: ServerConfig, clock: Clock, log: EventLog, budget: MemoryBudget
    ) -> None:
        self.listener = listener
        self.config = config
        self.clock = clock
        self.now_ns = clock.monotonic_ns
        self.log = log
        self.budget = budget
        self.memory = budget.requests
        self.frame_memory = FrameMemory(budget, clock)
        self.large_writes = LargeWrites()
        self.clients = ConnectedClients()
        self.holding = False  # no request is served yet
        self._spare_buffers: list[memoryview] = []

    def new_reader(self) -> FrameReader:
        return FrameReader(
            self.config.socket_request_max_bytes, reuse=True, spare=self._spare_buffers
        )
