"""The simulated world as a whole: how hosts die and come back, and how a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikafka.kernel.ports import World
from minikafka.world.sim.loop import Deadlock, TimeLimitExceeded
from minikafka.world.sim.world import SimWorld


class Wire(asyncio.BufferedProtocol):
    """Remembers what it hears; answers with the same if it is an echo."""

    def __init__(self, echo: bool = False) -> None:
        self.heard = bytearray()
        self.lost = asyncio.Event()
        self.error: Exception | None = None
        self._echo = echo
        self._buffer = bytearray(1024)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self._buffer[:nbytes]
        if self._echo:
            self._transport.write(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.lost.set()


def play(body: Callable[[SimWorld], Awaitable[Any]], seed: int = 1, limit_s: float = 3600) -> Any:
    world = SimWorld(seed)

    async def main() -> Any:
        return await body(world)

    return world.run(main(), limit_s)


async def serve(world: World) -> None:
    await world.network.listen(lambda: Wire(echo=True), "", 9092)
    await asyncio.get_running_loop().create_future()


async def call(world: World, host: str) -> tuple[asyncio.Transport, Wire]:
    transport, protocol = await world.network.connect(Wire, host, 9092)
    assert isinstance(protocol, Wire)
    return transport, protocol


def test_a_kill_cuts_the_ports_before_the_tasks_unwind() -> None:
    async def body(simulation: SimWorld) -> None:
        host, peer = simulation.host("host"), simulation.host("peer")
        ports = host.world
        unwound: list[str] = []

        async def main() -> None:
            ports.files.make_directories("/d")
            file = ports.files.open("/d/f", create=True)
            file.write(b"before", 0)
            await ports.network.listen(Wire, "", 9092)
            lock = ports.files.lock("/d/lock")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                unwound.append("main")
                with pytest.raises(BaseException):  # noqa: B017 - however the port says it
                    file.write(b"after!", 0)
                with pytest.raises(asyncio.CancelledError):
                    await ports.clock.sleep(1)
                lock.release()

        host.spawn(main())
        await asyncio.sleep(1)
        _, wire = await call(peer.world, "host")
        await host.kill()
        assert unwound == ["main"]
        await wire.lost.wait()
        with pytest.raises(ConnectionRefusedError):
            await call(peer.world, "host")
        again = host.restart()
        assert again.files.read_all("/d/f") == b"before"
        again.files.lock("/d/lock").release()
        host.spawn(serve(again))
        await asyncio.sleep(1)
        await call(peer.world, "host")

    play(body)


def test_everything_a_host_started_dies_with_it() -> None:
    async def body(simulation: SimWorld) -> None:
        host = simulation.host("host")
        ticks: list[str] = []

        async def tick(name: str) -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(name)

        class Starts(Wire):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.task = asyncio.ensure_future(tick("protocol"))

        async def main() -> None:
            host.world.clock.call_later(10_000, lambda: ticks.append("timer"))
            await host.world.network.listen(Starts, "", 9092)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(tick("child"))
                asyncio.get_running_loop().call_later(0, lambda: asyncio.ensure_future(tick("cb")))

        host.spawn(main())
        await call(simulation.host("peer").world, "host")
        await asyncio.sleep(5)
        assert set(ticks) == {"protocol", "child", "cb"}
        await host.kill()
        ticks.clear()
        await asyncio.sleep(60)
        assert ticks == []

    play(body)


def test_a_crashed_host_is_silent_until_its_restart() -> None:
    async def body(simulation: SimWorld) -> None:
        host, peer = simulation.host("host"), simulation.host("peer")
        host.spawn(serve(host.world))
        await asyncio.sleep(1)
        transport, wire = await call(peer.world, "host")
        await host.crash()
        transport.write(b"anybody?")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await call(peer.world, "host")
        assert not wire.lost.is_set()
        host.restart()
        await wire.lost.wait()
        assert isinstance(wire.error, ConnectionResetError)

    play(body)


def test_a_crash_loses_only_unflushed_bytes() -> None:
    async def body(simulation: SimWorld) -> bytes:
        host = simulation.host("host")
        files = host.world.files

        async def main() -> None:
            files.make_directories("/d")
            await files.flush_directory("/")
            file = files.open("/d/f", create=True)
            file.write(b"safe", 0)
            await file.flush()
            await files.flush_directory("/d")
            file.write(b"lost", 4)

        await host.spawn(main())
        await host.crash()
        return host.restart().files.read_all("/d/f")

    found = {play(body, seed) for seed in range(40)}
    assert all(data.startswith(b"safe") for data in found)
    assert {b"safe", b"safelost"} <= found
    assert len(found) > 2


def test_the_end_of_the_main_task_is_the_exit_of_the_process() -> None:
    async def body(simulation: SimWorld) -> None:
        host = simulation.host("host")

        async def main() -> str:
            host.spawn(serve(host.world))
            await asyncio.sleep(5)
            return "done"

        ended = host.start(main())
        await asyncio.sleep(1)
        _, wire = await call(simulation.host("peer").world, "host")
        await wire.lost.wait()
        assert await ended == "done"
        assert not host.alive
        with pytest.raises(asyncio.CancelledError):
            host.spawn(asyncio.sleep(0))
        host.restart()
        assert host.alive

    play(body)


def test_wall_clocks_differ_and_stay_so_after_a_restart() -> None:
    async def body(simulation: SimWorld) -> None:
        host, other = simulation.host("host"), simulation.host("other")
        host.set_wall_offset(-5000)
        await host.kill()
        ports = host.restart()
        assert ports.clock.wall_ms() == other.world.clock.wall_ms() - 5000
        assert ports.clock.monotonic_ms() == other.world.clock.monotonic_ms()

    play(body)


def test_isolation_and_healing() -> None:
    async def body(simulation: SimWorld) -> None:
        host, peer = simulation.host("host"), simulation.host("peer")
        host.spawn(serve(host.world))
        await asyncio.sleep(1)
        transport, wire = await call(peer.world, "host")
        simulation.isolate("host")
        transport.write(b"hello")
        await asyncio.sleep(30)
        assert wire.heard == b""
        simulation.heal()
        await asyncio.sleep(5)
        assert wire.heard == b"hello"
        simulation.reset("peer", "host")
        await wire.lost.wait()

    play(body)


def test_a_run_in_which_nothing_can_happen_ends() -> None:
    async def body(simulation: SimWorld) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        play(body)


def test_a_run_that_takes_too_long_ends() -> None:
    async def body(simulation: SimWorld) -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitExceeded):
        play(body, limit_s=100)


def test_unnoticed_failures_are_raised_at_the_end() -> None:
    async def body(simulation: SimWorld) -> None:
        async def fail() -> None:
            raise ValueError("in a task")

        def burst() -> None:
            raise KeyError("in a timer")

        host = simulation.host("host")
        task = host.spawn(fail())
        with pytest.raises(ValueError, match="in a task"):
            await task  # noticed
        host.spawn(fail())
        host.world.clock.call_later(5, burst)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)
    assert {type(e) for e in caught.value.exceptions} == {ValueError, KeyError}
    assert len(caught.value.exceptions) == 2


def test_hosts_still_alive_are_killed_at_the_end() -> None:
    unwound: list[str] = []

    async def body(simulation: SimWorld) -> None:
        async def stay() -> None:
            try:
                await asyncio.sleep(1e6)
            finally:
                unwound.append("stay")

        simulation.host("host").spawn(stay())
        await asyncio.sleep(1)

    play(body)
    assert unwound == ["stay"]
