"""Growth of receive buffers under one limit: waiting, going on, refusals."""

from __future__ import annotations

import asyncio
import random

import pytest

from minikafka.server.listeners.memory_budget import FIRST_FRAME_MS, FrameMemory, MemoryBudget
from minikafka.server.listeners.server import Server
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab, Peer, framed
from tests.support.world.manual_clock import ManualClock

LIMIT = 1000
FRAME = 700  # bytes of the largest frame of a client


class Client:
    """A connection whose buffer doubles until its frame is complete."""

    def __init__(self, memory: FrameMemory, frame: int, stops_at: int | None = None) -> None:
        self.memory = memory
        self.frame = frame
        self.stops_at = stops_at
        self.size = self.needs = 0
        self.waits = self.refused = self.completed = False

    @property
    def is_over(self) -> bool:
        return self.refused or self.completed

    def receive(self) -> None:
        """Receive as many bytes as the buffer holds; ask for more if the frame needs more."""
        if self.waits or self.is_over or (self.stops_at is not None and self.size >= self.stops_at):
            return
        self.size += self.needs
        self.needs = min(max(self.size, 50), self.frame - self.size)
        self.memory.hold(self, self.size, is_under_way=True)
        if self.needs:
            self.waits = not self.memory.grow(self, self.needs)
        else:
            self.completed = True
            self.memory.complete(self)
            self.memory.hold(self, self.size, is_under_way=False)

    def receive_more(self) -> None:
        assert self.waits
        self.waits = False

    def free_buffer(self) -> int:
        assert self.is_over or not self.size, "a frame under way lost its buffer"
        return 0

    def refuse_frame(self) -> None:
        self.refused = True
        self.memory.forget(self)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.mission("SAFE-76")
@pytest.mark.parametrize("seed", range(40))
async def test_every_frame_that_goes_on_becomes_complete(seed: int) -> None:
    rng = random.Random(seed)
    budget, clock = MemoryBudget(LIMIT), ManualClock()
    memory = FrameMemory(budget, clock)
    clients = [
        Client(memory, rng.randint(100, FRAME), 200 if rng.random() < 0.2 else None)
        for _ in range(30)
    ]
    honest = [client for client in clients if client.stops_at is None]
    for _ in range(10_000):
        for client in rng.sample(clients, rng.randint(1, 5)):
            client.receive()
        await settle()
        assert budget.frame_bytes <= LIMIT + FRAME
        if all(client.is_over for client in honest):
            break
        if all(client.waits or client.is_over or client.stops_at for client in clients):
            clock.advance(FIRST_FRAME_MS)
            await settle()
    assert all(client.completed for client in honest)
    for client in clients:
        memory.forget(client)
    assert budget.frame_bytes == 0


def full(budget: MemoryBudget) -> None:
    budget.add_responses(budget.max_bytes)


@pytest.mark.mission("SAFE-76")
async def test_only_the_frame_that_began_first_grows_while_memory_is_used_up() -> None:
    budget, clock = MemoryBudget(LIMIT), ManualClock()
    memory = FrameMemory(budget, clock)
    first, second = Client(memory, FRAME), Client(memory, FRAME)
    first.receive()
    second.receive()
    full(budget)
    second.receive()
    assert second.waits
    first.receive()
    assert not first.waits
    budget.add_responses(-LIMIT)
    await settle()
    assert not second.waits


@pytest.mark.mission("SAFE-76")
async def test_the_next_frame_goes_on_when_the_first_is_complete_or_its_connection_lost() -> None:
    budget, clock = MemoryBudget(LIMIT), ManualClock()
    memory = FrameMemory(budget, clock)
    clients = [Client(memory, 100) for _ in range(3)]
    for client in clients:
        client.receive()
    full(budget)
    for client in clients[1:]:
        client.receive()
    assert [client.waits for client in clients] == [False, True, True]
    clients[0].receive()
    clients[0].receive()
    assert clients[0].completed
    await settle()
    assert [client.waits for client in clients] == [False, False, True]
    memory.forget(clients[1])
    await settle()
    assert not clients[2].waits


@pytest.mark.mission("SAFE-76")
async def test_a_frame_that_stops_is_refused_once_others_wait() -> None:
    budget, clock = MemoryBudget(LIMIT), ManualClock()
    memory = FrameMemory(budget, clock)
    stopped, waiting = Client(memory, FRAME), Client(memory, FRAME)
    stopped.receive()
    full(budget)
    clock.advance(2 * FIRST_FRAME_MS)
    await settle()
    assert not stopped.refused  # nobody waits
    waiting.receive()
    assert waiting.waits
    clock.advance(FIRST_FRAME_MS - 1)
    await settle()
    assert not stopped.refused
    clock.advance(1)
    await settle()
    assert stopped.refused
    assert not waiting.waits


async def test_a_frame_that_became_the_first_has_its_own_time() -> None:
    budget, clock = MemoryBudget(LIMIT), ManualClock()
    memory = FrameMemory(budget, clock)
    clients = [Client(memory, 100) for _ in range(3)]
    for client in clients:
        client.receive()
    full(budget)
    clients[2].receive()
    clock.advance(FIRST_FRAME_MS - 1)
    memory.forget(clients[0])
    clock.advance(1)
    await settle()
    assert not clients[1].refused
    clock.advance(FIRST_FRAME_MS)
    await settle()
    assert clients[1].refused
    assert not clients[2].waits


async def test_kept_buffers_are_freed_when_all_together_have_more_than_their_share() -> None:
    budget = MemoryBudget(LIMIT)
    memory = FrameMemory(budget, ManualClock())
    clients = [Client(memory, 100) for _ in range(3)]
    for client in clients[:2]:
        while not client.completed:
            client.receive()
    assert budget.frame_bytes == 200
    while not clients[2].completed:
        clients[2].receive()
    assert budget.frame_bytes == 0


MB = 1 << 20


def echo(connection: ServerConnection, frame: memoryview) -> None:
    connection.open_slot(len(frame)).send(framed(bytes(frame[:10])))


async def part_of_a_frame(lab: Lab, server: Server, claimed: int, sent: int) -> Peer:
    """Connect, and send the size and the first bytes of a frame."""
    peer = await lab.connect(server)
    before = server.budget.frame_bytes
    peer.writer.write(framed(bytes(claimed))[: sent + 4])
    await lab.until(lambda: server.budget.frame_bytes > before)
    return peer


@pytest.mark.mission("SAFE-76")
async def test_parts_of_frames_are_counted_and_let_small_and_large_requests_through(
    lab: Lab,
) -> None:
    server = await lab.serve(echo, budget=MemoryBudget(13 * MB))
    stopped = [await part_of_a_frame(lab, server, 64 * MB, 3 * MB) for _ in range(3)]
    await lab.until(lambda: server.budget.frame_bytes == 12 * MB)
    small, large = await lab.connect(server), await lab.connect(server)
    large.send(bytes(5 * MB))
    await lab.until(lambda: server._resources.frame_memory._turn is not None)
    small.send(b"small")
    assert await small.receive() == b"small"
    lab.clock.advance(FIRST_FRAME_MS)
    assert await stopped[0].is_closed()
    assert await large.receive() == bytes(10)
    closed = [name for _, name, _ in lab.log.events if name == "connection_aborted"]
    assert len(closed) == 1
    for peer in stopped:
        peer.close()
    large.close()
    await lab.until(lambda: server.budget.frame_bytes == 0)


async def test_a_connection_that_is_closed_within_a_frame_counts_nothing(lab: Lab) -> None:
    server = await lab.serve(echo, budget=MemoryBudget())
    peer = await part_of_a_frame(lab, server, 64 * MB, 3 * MB)
    peer.close()
    await lab.until(lambda: server.budget.frame_bytes == 0)


@pytest.mark.parametrize("size", [100_000, MB, 3 * MB])
async def test_frames_pass_one_after_the_other_while_memory_is_used_up(lab: Lab, size: int) -> None:
    server = await lab.serve(echo, budget=MemoryBudget(4 * MB))
    server.budget.add_responses(4 * MB)
    peers = [await lab.connect(server) for _ in range(10)]
    for peer in peers:
        peer.send(bytes(size), bytes(size))
    for peer in peers:
        assert await peer.receive() == bytes(10)
        assert await peer.receive() == bytes(10)
    assert server.budget.frame_bytes <= size + 4 * MB
