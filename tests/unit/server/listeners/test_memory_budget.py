"""One account of what clients make a broker hold: kinds, the common limit, and what waits."""

import asyncio
from typing import Any, cast

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.listeners.memory_budget import RESPONSE_BYTES_ANYWAY, MemoryBudget
from minikafka.server.listeners.reply_queue import LARGE_REPLY_BYTES
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.server.node import config_views
from tests.support.network.network_lab import Lab, framed

MB = 1 << 20


@pytest.mark.mission("SAFE-42")
def test_every_kind_counts_towards_the_limit() -> None:
    budget = MemoryBudget(100)
    budget.requests.add(10)
    budget.add_responses(20)
    budget.add_parked_fetches(30)
    budget.set_sessions(40)
    assert budget.used_bytes == 100
    assert not budget.is_exceeded
    budget.add_responses(1)
    assert budget.is_exceeded


def test_other_kinds_leave_less_to_requests() -> None:
    budget, woken = MemoryBudget(100), list[str]()
    budget.requests.add(50)
    assert not budget.requests.is_full
    budget.set_sessions(50)
    assert budget.requests.is_full
    assert budget.requests.wait(lambda: woken.append("woken"))
    budget.set_sessions(50)
    assert woken == []
    budget.set_sessions(49)
    assert woken == ["woken"]


def test_the_limit_of_requests_holds_beside_the_common_one() -> None:
    budget = MemoryBudget(100, max_request_bytes=10)
    budget.requests.add(10)
    assert budget.requests.is_full
    assert not budget.is_exceeded


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_not_positive_is_none(limit: int) -> None:
    budget = MemoryBudget(limit, limit)
    budget.add_responses(1 << 40)
    budget.requests.add(1 << 40)
    assert not budget.is_exceeded
    assert not budget.requests.is_full
    assert budget.response_room(to_follower=False) > 1 << 40


def test_the_room_for_a_response() -> None:
    budget = MemoryBudget(10 * MB)
    assert budget.response_room(to_follower=False) == 5 * MB
    assert budget.response_room(to_follower=True) == 10 * MB
    budget.add_responses(2 * MB)
    assert budget.response_room(to_follower=False) == 3 * MB
    assert budget.response_room(to_follower=True) == 8 * MB
    budget.requests.add(6 * MB)
    assert budget.response_room(to_follower=False) == 2 * MB
    budget.requests.add(6 * MB)
    assert budget.response_room(to_follower=False) == RESPONSE_BYTES_ANYWAY
    assert budget.response_room(to_follower=True) == RESPONSE_BYTES_ANYWAY


def test_more_than_was_counted_is_not_given_back() -> None:
    budget = MemoryBudget()
    with pytest.raises(AssertionError):
        budget.add_responses(-1)
    with pytest.raises(AssertionError):
        budget.add_parked_fetches(-1)


def test_the_limits_are_configured() -> None:
    config = BROKER_CONFIG.parse({"zookeeper.connect": "z:1"})
    assert config_views.memory_budget(config).max_bytes == 512 * MB
    keys = {"zookeeper.connect": "z:1", "client.memory.max.bytes": "10"}
    assert config_views.memory_budget(BROKER_CONFIG.parse(keys)).max_bytes == 10
    with pytest.raises(ConfigError):
        BROKER_CONFIG.parse(keys | {"client.memory.max.bytes": "half"})


@pytest.mark.mission("SAFE-42")
async def test_a_connection_with_a_request_waits_for_memory_of_any_kind(lab: Lab) -> None:
    served: list[bytes] = []

    def on_frame(connection: ServerConnection, frame: memoryview) -> None:
        served.append(bytes(frame))
        slot = connection.open_slot(len(frame))
        if not served[-1].startswith(b"p"):
            slot.send(framed(served[-1]))

    budget = MemoryBudget(1000)
    server = await lab.serve(on_frame, budget=budget)
    holding, idle = await lab.connect(server), await lab.connect(server)
    holding.send(b"p1")
    await lab.until(lambda: len(served) == 1)
    budget.add_parked_fetches(1000)
    holding.send(b"p2")
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert served == [b"p1"]
    idle.send(b"fetch")
    assert await idle.receive() == b"fetch"  # it holds nothing: something always proceeds
    budget.add_parked_fetches(-1000)
    await lab.until(lambda: served == [b"p1", b"fetch", b"p2"])


class Socket:
    """A transport that takes ``room`` bytes, and notes how many connections write in each turn."""

    def __init__(self, writes: list[int], room: int = 0) -> None:
        self._writes, self._room = writes, room
        self._limits = (0, 0)
        self.protocol: ServerConnection | None = None
        self.unsent = 0

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None: ...

    def write(self, data: bytes) -> None:
        self._writes.append(len(data))
        self.unsent += max(0, len(data) - self._room)
        if self.unsent > self._limits[0]:
            assert self.protocol is not None
            self.protocol.pause_writing()

    def take(self) -> None:
        assert self.protocol is not None
        self.unsent = 0
        self.protocol.resume_writing()

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        assert self.protocol is not None
        self.protocol.connection_lost(None)


async def connected(lab: Lab, budget: MemoryBudget, *sockets: Socket) -> list[ServerConnection]:
    server = await lab.serve(lambda connection, frame: None, budget=budget)
    connections = []
    for number, socket in enumerate(sockets, 1):
        connection = ServerConnection(number, server, server._resources, lambda c, f: None)
        socket.protocol = connection
        connection.connection_made(cast(Any, socket))
        connections.append(connection)
    return connections


@pytest.mark.mission("SAFE-42")
async def test_a_large_reply_counts_whole_until_its_last_byte_is_taken(lab: Lab) -> None:
    budget, size = MemoryBudget(), LARGE_REPLY_BYTES + 1
    slow, fast = Socket([], room=size - 1), Socket([], room=size)
    for connection in await connected(lab, budget, slow, fast):
        connection.open_slot().send(bytes(size))
    await lab.until(lambda: slow.unsent == 1 and budget.response_bytes == size)
    slow.take()
    assert budget.response_bytes == 0


async def test_replies_that_are_not_taken_are_forgotten_with_their_connection(lab: Lab) -> None:
    budget, socket = MemoryBudget(), Socket([])
    (connection,) = await connected(lab, budget, socket)
    for _ in range(2):
        connection.open_slot().send(bytes(LARGE_REPLY_BYTES + 1))
        await lab.until(lambda: socket.unsent == budget.response_bytes > 0)
    connection.connection_lost(None)
    assert budget.response_bytes == 0


@pytest.mark.mission("SAFE-43")
async def test_large_replies_of_many_connections_are_written_in_several_turns(lab: Lab) -> None:
    writes: list[int] = []
    budget, count = MemoryBudget(), 20
    sockets = [Socket(writes) for _ in range(count)]
    for connection in await connected(lab, budget, *sockets):
        connection.open_slot().send(bytes(3 * MB))
    turns: list[int] = []
    while sum(turns) < count and len(turns) < 100:
        writes.clear()
        await asyncio.sleep(0)
        turns.append(len(writes))
    assert sum(turns) == count
    assert max(turns) == 2  # 4 MB are reached by the second
    assert budget.response_bytes == 3 * count * MB
    for socket in sockets:
        socket.take()
    assert budget.response_bytes == 0


async def test_small_replies_do_not_wait_behind_large_ones(lab: Lab) -> None:
    large: list[int] = []
    small: list[int] = []
    sockets = [*(Socket(large) for _ in range(20)), Socket(small, room=MB)]
    connections = await connected(lab, MemoryBudget(), *sockets)
    for connection in connections[:-1]:
        connection.open_slot().send(bytes(3 * MB))
    connections[-1].open_slot().send(b"small")
    await lab.until(lambda: bool(small))
    assert len(large) < 20
