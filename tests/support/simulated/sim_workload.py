"""A small workload with faults in the simulated world; run as a program it prints its trace."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from minikafka.kernel.ports import CoordinationError, World
from minikafka.world.sim.world import SimWorld


class Echo(asyncio.BufferedProtocol):
    """A protocol that sends received bytes back, or counts them."""

    def __init__(self, count: Callable[[int], None] | None) -> None:
        self._count = count
        self._buffer = bytearray(512)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._count is None:
            self._transport.write(self._buffer[:nbytes])
        else:
            self._count(nbytes)


async def serve(world: World, name: str) -> None:
    """Listen, write a file at intervals, and hold an ephemeral znode."""
    await world.network.listen(lambda: Echo(None), "", 7)
    session = await world.coordination.open("zk/work", 6000, 10_000)
    world.files.make_directories("/data")
    file = world.files.open("/data/log", create=True)

    async def scribble(number: int) -> None:
        while True:
            await world.clock.sleep(100 + world.entropy.randrange(100 * number))
            file.write(world.entropy.random_bytes(200), file.size())
            await file.flush()

    async def announce() -> None:
        while True:
            try:
                await session.create(f"/{name}-", ephemeral=True, sequential=True)
                await session.children("/", lambda _: None)
            except CoordinationError:
                pass
            await world.clock.sleep(700)

    async with asyncio.TaskGroup() as tasks:
        for number in range(1, 4):
            tasks.create_task(scribble(number))
        tasks.create_task(announce())


async def send_random_bytes(simulation: SimWorld, world: World, host: str) -> int:
    received = 0

    def count(nbytes: int) -> None:
        nonlocal received
        received += nbytes
        simulation.tracer.add("received", bytes=nbytes)

    try:
        async with asyncio.timeout(5):
            transport, _ = await world.network.connect(lambda: Echo(count), host, 7)
    except OSError as error:
        simulation.tracer.add("refused", error=type(error).__name__)
        return 0
    for _ in range(5):
        transport.write(world.entropy.random_bytes(1 + world.entropy.randrange(3000)))
        await world.clock.sleep(50)
    transport.close()
    return received


async def work(simulation: SimWorld) -> None:
    names = ["a", "b", "c"]
    for name in names:
        host = simulation.host(name)
        host.spawn(serve(host.world, name))
    await asyncio.sleep(1)
    client = simulation.host("client")
    for step in range(12):
        name = names[step % 3]
        host = simulation.host(name)
        senders = {
            client.spawn(send_random_bytes(simulation, client.world, other)) for other in names
        }
        done, _ = await asyncio.wait(senders)  # a set of tasks: its order must not escape
        simulation.tracer.add("results", received=[task.result() for task in done])
        match step % 6:
            case 0:
                await host.kill()
            case 1:
                await host.crash()
            case 2:
                simulation.isolate(name)
            case 3:
                simulation.heal()
            case 4:
                simulation.zookeeper.stop()
            case 5:
                simulation.zookeeper.start()
        for fallen in (simulation.host(n) for n in names):
            if not fallen.alive and step % 2:
                fallen.spawn(serve(fallen.restart(), fallen.name))
        await asyncio.sleep(3)


def trace_of(seed: int) -> list[str]:
    simulation = SimWorld(seed)
    simulation.run(work(simulation), limit_s=3600)
    return [*simulation.trace, simulation.digest()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(trace_of(int(sys.argv[1]))))
